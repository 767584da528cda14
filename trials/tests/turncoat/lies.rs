//! What becomes of a question and its answer, by the dice: withheld, refused, told again later, changed, forged.

use std::collections::BTreeMap;
use std::time::Duration;

use identity::envelope::Envelope;
use org::ledger::entry::SignedEntry;
use org::state::State;
use serde_json::{Value, json};
use trials::dice::Dice;
use wire::control::{Call, SignedCall};
use wire::permit::Ask;

use super::forge::{Hand, KINDS};

/// So many old answers and signed things are kept to be told again.
const MEMORY: usize = 400;
/// Agents, gateways and tools give up at 30 s: whoever is kept waiting hears nothing after this.
const LONGEST: usize = 1_500;

/// What a question is answered with.
pub enum Plan {
    HangUp,
    /// Nothing comes, and then it hangs up.
    Keep(Duration),
    Say(u16, Vec<u8>),
    /// The gateway inside is asked so, and its answer is handed on.
    Hand(Vec<u8>),
    /// The same, and its answer is changed.
    Change(Vec<u8>, Dice),
}

pub struct Mind {
    seed: u64,
    pub hand: Hand,
    /// How often each asked what.
    asked: BTreeMap<String, u64>,
    /// Answers by what was asked, and signed things by their kind.
    answers: Vec<(&'static str, Vec<u8>)>,
    signed: Vec<Envelope>,
    pub told: Vec<String>,
}

impl Mind {
    pub fn new(seed: u64, hand: Hand) -> Self {
        let (asked, answers, signed, told) = (BTreeMap::new(), Vec::new(), Vec::new(), Vec::new());
        Self { seed, hand, asked, answers, signed, told }
    }

    pub fn plan(&mut self, ask: Ask, caller: &str, body: &[u8]) -> Plan {
        let question = hurried(ask, body);
        if matches!(ask, Ask::File | Ask::Carry) {
            return Plan::Hand(question);
        }
        let nth = self.asked.entry(format!("{caller} {}", ask.path())).or_default();
        *nth += 1;
        let purpose = format!("{caller} {} {nth}", ask.path());
        let mut dice = Dice::of(self.seed, &purpose);
        let mut tell = |what: &str| self.told.push(format!("{purpose}: {what}"));
        // Whoever is not believed at the door hears nothing else.
        let truth = match ask {
            Ask::Founding | Ask::Signers | Ask::Head | Ask::Challenge => 90,
            Ask::Control => 75,
            Ask::Exchange => 60,
            _ => 40,
        };
        if dice.percent(truth) {
            return Plan::Hand(question);
        }
        match dice.below(55) {
            0..4 => {
                tell("hangs up");
                Plan::HangUp
            }
            4..6 => {
                tell("says nothing");
                Plan::Keep(Duration::from_millis(dice.below(LONGEST) as u64))
            }
            6..11 => {
                let (status, why) = refusal(&mut dice);
                tell(&format!("refuses: {why}"));
                Plan::Say(status, why.to_string().into_bytes())
            }
            11..14 => {
                tell("nonsense");
                Plan::Say(200, nonsense(&mut dice))
            }
            14..19 => {
                let mut question: Value = serde_json::from_slice(body).unwrap_or_default();
                let how = change(&mut question, &mut dice);
                tell(&format!("hands the question on {how}"));
                Plan::Hand(question.to_string().into_bytes())
            }
            19..25 => match drop_it(ask, body, &self.answers, &mut dice) {
                Some(answer) => {
                    tell("does nothing, and says that it did");
                    Plan::Say(200, answer)
                }
                None => Plan::Hand(question),
            },
            _ => Plan::Change(question, dice),
        }
    }

    /// What the caller hears instead; and an entry that its own chain has from now on.
    pub fn answer(
        &mut self,
        (ask, caller): (Ask, &str),
        told: Vec<u8>,
        (changes, state): (Option<Dice>, &State),
    ) -> (Vec<u8>, Option<SignedEntry>) {
        let Ok(mut answer) = serde_json::from_slice::<Value>(&told) else { return (told, None) };
        self.remember(ask, &told, &answer);
        let Some(mut dice) = changes else { return (told, None) };
        let mut grown = None;
        let mut how = Vec::new();
        // What cannot be read is refused whole: mostly each word of it is in order.
        let plausible = dice.percent(70);
        for _ in 0..=dice.below(3) {
            how.push(if plausible || dice.percent(50) {
                let (words, entry) = self.forge(&mut answer, state, &mut dice);
                // Two that follow the same place would be a fork.
                grown = grown.or(entry);
                words
            } else {
                change(&mut answer, &mut dice)
            });
        }
        self.told.push(format!("{caller} {}: {}", ask.path(), how.join(", ")));
        (answer.to_string().into_bytes(), grown)
    }

    fn remember(&mut self, ask: Ask, told: &[u8], answer: &Value) {
        let mut envelopes = Vec::new();
        sites(answer, "", &mut |_, value| envelopes.extend(envelope(value)));
        for envelope in envelopes {
            if !self.signed.contains(&envelope) && self.signed.len() < MEMORY {
                self.signed.push(envelope);
            }
        }
        if self.answers.len() < MEMORY {
            self.answers.push((ask.path(), told.to_vec()));
        }
    }

    /// Puts something that is signed, by it or earlier by others, in the place of something, or beside it.
    fn forge(&mut self, answer: &mut Value, state: &State, dice: &mut Dice) -> (String, Option<SignedEntry>) {
        let mut places = Vec::new();
        sites(answer, "", &mut |at, value| {
            if let Some(found) = envelope(value) {
                places.push((at.to_owned(), found.kind().to_owned()));
            }
        });
        let lists = lists_of_envelopes(answer);
        let in_list = dice.choose(&lists).cloned().filter(|_| dice.percent(50));
        let place = dice.choose(&places).cloned();
        let Some((_, kind)) = in_list.as_ref().or(place.as_ref()).cloned() else { return (change(answer, dice), None) };
        let kind = if kind.is_empty() || dice.percent(10) { dice.pick(KINDS).to_owned() } else { kind };
        let older: Vec<&Envelope> = self.signed.iter().filter(|it| it.kind() == kind).collect();
        let older = dice.choose(&older).map(|it| (*it).clone()).filter(|_| dice.percent(30));
        let (made, entry, whose) = match older {
            Some(older) => (older, None, "older"),
            None => match self.hand.make(&kind, state, dice) {
                Some((made, entry)) => (made, entry, "forged"),
                None => return (change(answer, dice), None),
            },
        };
        let made = serde_json::to_value(&made).unwrap();
        match (in_list, place) {
            (Some((at, _)), _) => {
                let list = answer.pointer_mut(&at).and_then(Value::as_array_mut).unwrap();
                let place = dice.below(list.len() + 1);
                list.insert(place, made);
                (format!("{whose} `{kind}` among {at}"), entry)
            }
            (None, Some((at, _))) => {
                *answer.pointer_mut(&at).unwrap() = made;
                (format!("{whose} `{kind}` at {at}"), entry)
            }
            (None, None) => (String::new(), None),
        }
    }
}

/// Nobody waits for news that a liar would only tell late.
fn hurried(ask: Ask, body: &[u8]) -> Vec<u8> {
    let Ok(mut question) = serde_json::from_slice::<Value>(body) else { return body.to_vec() };
    let wait = match ask {
        Ask::Sync => question.pointer_mut("/wait"),
        Ask::Exchange => question.pointer_mut("/news/wait"),
        _ => None,
    };
    match wait {
        Some(wait) => *wait = json!(0),
        None => return body.to_vec(),
    }
    question.to_string().into_bytes()
}

/// An answer that fits, while nothing is done: to what changes something that it was taken, to the rest an old one.
fn drop_it(ask: Ask, body: &[u8], older: &[(&'static str, Vec<u8>)], dice: &mut Dice) -> Option<Vec<u8>> {
    if ask == Ask::Control {
        let signed: SignedCall = serde_json::from_slice(body).ok()?;
        match serde_json::from_slice(&signed.call.0).ok()? {
            Call::Take { .. } | Call::Hand { .. } => return Some(b"{\"taken\":{}}".to_vec()),
            Call::Stage { .. } | Call::StageMap { .. } | Call::StageChange { .. } | Call::StagePart { .. } => {
                return Some(b"{\"staged\":{}}".to_vec());
            }
            _ => {}
        }
    }
    let older: Vec<_> = older.iter().filter(|(path, _)| *path == ask.path()).collect();
    dice.choose(&older).map(|(_, answer)| answer.clone())
}

fn refusal(dice: &mut Dice) -> (u16, Value) {
    dice.pick([
        (403, "key_revoked"),
        (403, "key_left"),
        (403, "not_admitted"),
        (403, "not_an_operator"),
        (403, "invite_revoked"),
        (403, "invite_used_up"),
        (503, "restored"),
        (503, "ledger_behind"),
        (503, "no_mandate"),
        (202, "waiting"),
        (500, "failed"),
        (429, "too_many_attempts"),
    ])
    .into_refusal()
}

trait IntoRefusal {
    fn into_refusal(self) -> (u16, Value);
}

impl IntoRefusal for (u16, &str) {
    fn into_refusal(self) -> (u16, Value) {
        let mut why = json!({ "code": self.1 });
        match self.1 {
            "failed" => why["why"] = json!("\u{1b}[2J\u{202e}gone"),
            "too_many_attempts" => why["retry_after"] = json!(1),
            "invite_used_up" => why["uses"] = json!(1),
            _ => {}
        }
        (self.0, why)
    }
}

fn nonsense(dice: &mut Dice) -> Vec<u8> {
    match dice.below(4) {
        0 => Vec::new(),
        1 => vec![b' '; 9 << 20],
        2 => b"[".repeat(20_000),
        _ => b"{\"documents\":[]}".to_vec(),
    }
}

fn envelope(value: &Value) -> Option<Envelope> {
    let object = value.as_object()?;
    object.contains_key("payloadType").then(|| serde_json::from_value(value.clone()).ok()).flatten()
}

/// Every place in it, the outermost first; what is signed is not looked into.
fn sites<'v>(value: &'v Value, at: &str, look: &mut dyn FnMut(&str, &'v Value)) {
    look(at, value);
    match value {
        Value::Object(fields) if !fields.contains_key("payloadType") => {
            for (name, field) in fields {
                sites(field, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), look);
            }
        }
        Value::Array(items) => {
            for (nth, item) in items.iter().enumerate() {
                sites(item, &format!("{at}/{nth}"), look);
            }
        }
        _ => {}
    }
}

/// Where signed things stand in a row, and of which kind; of an empty row nobody knows.
fn lists_of_envelopes(answer: &Value) -> Vec<(String, String)> {
    let mut lists = Vec::new();
    sites(answer, "", &mut |at, value| {
        if let Value::Array(items) = value {
            let kinds: Option<Vec<Envelope>> = items.iter().map(envelope).collect();
            if let Some(kinds) = kinds {
                lists.push((at.to_owned(), kinds.first().map(|it| it.kind().to_owned()).unwrap_or_default()));
            }
        }
    });
    lists
}

/// One change to the words alone. Says which.
fn change(value: &mut Value, dice: &mut Dice) -> String {
    let mut places = Vec::new();
    sites(value, "", &mut |at, _| places.push(at.to_owned()));
    let at = dice.choose(&places).cloned().unwrap_or_default();
    let Some(here) = value.pointer_mut(&at) else { return String::new() };
    let how = match here {
        Value::Array(items) => change_list(items, dice),
        Value::Object(fields) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            match (dice.below(3), dice.choose(&names)) {
                (0, Some(name)) => drop(fields.remove(name)),
                (1, Some(name)) => drop(fields.insert(name.clone(), Value::Null)),
                _ => drop(fields.insert("more".to_owned(), json!([1]))),
            }
            "with other fields"
        }
        Value::Number(_) => {
            *here = dice.pick([0, 1, u64::MAX, 1 << 53, i64::MAX as u64]).into();
            "with another number"
        }
        Value::String(text) => {
            let place = dice.below(text.len());
            let changed: String =
                text.chars().enumerate().map(|(nth, c)| if nth == place { other(c) } else { c }).collect();
            *text = changed;
            "with another letter"
        }
        Value::Bool(yes) => {
            *yes = !*yes;
            "turned round"
        }
        Value::Null => {
            *here = json!({});
            "with something where nothing was"
        }
    };
    format!("{how} at `{at}`")
}

fn change_list(items: &mut Vec<Value>, dice: &mut Dice) -> &'static str {
    match dice.below(5) {
        0 => {
            items.truncate(dice.below(items.len()));
            "cut"
        }
        1 if !items.is_empty() => {
            items.remove(dice.below(items.len()));
            "without one"
        }
        2 => {
            let again = items.clone();
            items.extend(again);
            "twice"
        }
        3 => {
            let one = items.first().cloned().unwrap_or_default();
            items.resize(items.len() + 700, one);
            "far too long"
        }
        _ => {
            items.reverse();
            "the other way round"
        }
    }
}

const fn other(c: char) -> char {
    match c {
        'A' => 'B',
        '0' => '1',
        _ => 'A',
    }
}
