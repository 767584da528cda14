$input | freehold-node join
