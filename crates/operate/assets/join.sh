#!/bin/sh
exec freehold-node join
