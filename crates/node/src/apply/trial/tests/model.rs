//! Every order of offers, evidence, time, wrong clocks and crashes, up to a bound. All of them are tried.
