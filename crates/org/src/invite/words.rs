//! A claim's words (a short authentication string): seventy bits that a person can read to another over the phone.

use std::fmt;
use std::str::FromStr;

use identity::id::Digest;
use identity::text::BadText;
use identity::text_form;

/// A word stands for ten bits.
const BITS: usize = 10;
/// What the digest of the words begins with: nothing else that is hashed does.
const LABEL: &[u8] = b"freehold claim words v1\0";
/// They are read out in groups of this many.
const GROUPS: [usize; 3] = [3, 2, 2];

/// The seven words of one claim: a machine shows them, and whoever approves it compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Words([u16; Self::COUNT]);

impl Words {
    /// So many there are.
    pub const COUNT: usize = 7;

    /// Of the claim whose envelope has this digest.
    pub fn of(claim: Digest) -> Self {
        let hash = Digest::of(&[LABEL, &claim.0].concat()).0;
        let bit = |at: usize| hash.get(at / 8).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1);
        let word = |number: usize| (0..BITS).fold(0, |word, at| word << 1 | u16::from(bit(number * BITS + at)));
        Self(std::array::from_fn(word))
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = &'static str> {
        self.0.into_iter().filter_map(|number| LIST.get(usize::from(number)).copied())
    }

    /// Do they begin so? What is said may be in groups, and in capitals.
    pub fn begin_with(&self, said: &[u16]) -> bool {
        self.0.starts_with(said)
    }
}

/// The words in what somebody typed, pasted or heard, as their numbers. Nothing if one of them is none.
pub fn read(text: &str) -> Option<Vec<u16>> {
    let said = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    said.map(|word| u16::try_from(LIST.binary_search(&word.to_ascii_lowercase().as_str()).ok()?).ok()).collect()
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = self.iter();
        let groups = GROUPS.map(|count| words.by_ref().take(count).collect::<Vec<_>>().join(" "));
        f.write_str(&groups.join(", "))
    }
}

impl FromStr for Words {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        let bad = BadText { form: "claim's words (seven of them)" };
        read(text).and_then(|said| said.try_into().ok()).map(Self).ok_or(bad)
    }
}

text_form!(Words);

/// Common, short, and not easily taken for one another: no two begin with the same four letters, none is the beginning
/// of another, and no slip of one letter leads from one to another. Sorted; never changed, or machines and operators of
/// two versions would see different words.
#[rustfmt::skip]
const LIST: [&str; 1 << BITS] = [
    "abbey", "absorb", "accent", "achieve", "acorn", "acrobat", "actor", "adapt", "address", "admire", "adobe",
    "advance", "affect", "afford", "agile", "ahead", "airport", "alarm", "alcove", "alert", "alfalfa", "alike",
    "allow", "almond", "alpine", "amaze", "amber", "amount", "ample", "anchor", "angle", "animal", "annual",
    "antenna", "antique", "antler", "apology", "appear", "approve", "aquatic", "arcade", "archer", "arena", "argue",
    "armor", "arrange", "arrive", "artist", "ascend", "ashore", "asphalt", "aspire", "assist", "athlete", "atlas",
    "atom", "attic", "attract", "auburn", "autumn", "avenue", "average", "avoid", "await", "awake", "awning", "axis",
    "backup", "bagel", "bakery", "balance", "bamboo", "banana", "bandage", "banner", "bargain", "barley", "barrel",
    "bashful", "basil", "bathtub", "bazaar", "beacon", "beaver", "become", "bedroom", "began", "bellows", "belong",
    "benefit", "berry", "beware", "beyond", "bicycle", "biology", "birch", "bison", "blaze", "blend", "blink", "blue",
    "board", "boat", "boil", "bonnet", "bonus", "boost", "border", "botany", "bounce", "bouquet", "boxer", "branch",
    "bravo", "bread", "bridge", "brief", "bright", "broom", "brother", "brown", "buckle", "buddy", "budget", "bugle",
    "bumper", "bundle", "burrow", "busy", "butter", "cabbage", "cabin", "cable", "cadet", "cafe", "caliber", "calm",
    "camel", "canal", "candle", "canoe", "canvas", "canyon", "capable", "caption", "caramel", "carbon", "caribou",
    "carpet", "carrot", "carve", "cascade", "cashew", "cavern", "cedar", "ceiling", "census", "century", "ceramic",
    "chalk", "chamber", "chapel", "chatter", "cheddar", "cheese", "cherry", "chicken", "chimney", "chorus", "chrome",
    "chunk", "cinema", "circle", "citrus", "civic", "clap", "clarify", "clerk", "clever", "cliff", "climate", "clock",
    "clown", "club", "cluster", "cobalt", "cobbler", "cobweb", "collar", "column", "combine", "comfort", "common",
    "compare", "condor", "confirm", "consent", "convoy", "copper", "coral", "correct", "cosmic", "cottage", "council",
    "couple", "courage", "cowboy", "coyote", "crab", "craft", "crane", "crater", "credit", "creek", "crew", "crimson",
    "crisp", "crop", "cruise", "crumb", "crunch", "cubic", "cuddle", "cupcake", "custom", "cyclone", "cypress",
    "dairy", "damp", "daring", "dawn", "dazzle", "decade", "decimal", "declare", "defend", "degree", "delight",
    "denim", "dentist", "depot", "design", "desk", "detail", "develop", "device", "devote", "diagram", "dial",
    "diamond", "digest", "digital", "dignity", "direct", "discuss", "dismiss", "distant", "diver", "divide", "dock",
    "doctor", "dolphin", "dotted", "double", "dough", "dozen", "dragon", "drama", "dress", "drift", "drink",
    "drizzle", "drought", "duplex", "duster", "duty", "eager", "eagle", "early", "earth", "easel", "eastern", "ebony",
    "echo", "eclipse", "editor", "effort", "eight", "elastic", "elbow", "elder", "element", "elevate", "elite",
    "embark", "embody", "emerald", "employ", "empty", "enamel", "endless", "energy", "engine", "enjoy", "enrich",
    "entry", "equip", "erase", "errand", "essay", "essence", "estate", "evening", "exact", "exceed", "excite",
    "exhibit", "exotic", "expand", "expert", "explore", "express", "extend", "eyebrow", "eyelid", "fabric", "faculty",
    "falcon", "family", "fancy", "farmer", "fashion", "father", "faucet", "fearful", "fellow", "fennel", "fern",
    "fetch", "fiber", "fiddle", "fiery", "fiesta", "fifteen", "filter", "finance", "finch", "finish", "firefly",
    "first", "flag", "flame", "flannel", "flavor", "fleece", "flicker", "flint", "float", "flower", "fluffy", "foam",
    "foggy", "folder", "folk", "forest", "forge", "formal", "forward", "fossil", "foster", "fox", "fragile",
    "freckle", "friend", "fringe", "frog", "frozen", "fruit", "fudge", "furnace", "gadget", "galaxy", "garage",
    "garden", "garlic", "garnet", "gate", "gazelle", "gecko", "genius", "genre", "gesture", "geyser", "giant",
    "giggle", "giraffe", "glacier", "glass", "gleam", "glimpse", "globe", "goblet", "golf", "gondola", "gopher",
    "grain", "granite", "grape", "greet", "griddle", "grocer", "ground", "growth", "guard", "guest", "guide",
    "guitar", "gym", "habit", "hail", "halibut", "hallway", "hammer", "hangar", "happy", "harbor", "harmony",
    "harness", "harp", "hatchet", "hawk", "hazel", "heart", "helmet", "helpful", "herald", "heron", "herring",
    "hiccup", "hickory", "hidden", "hiking", "hinge", "history", "hockey", "holiday", "honest", "honor", "hood",
    "horizon", "horse", "hostel", "humble", "hummus", "hundred", "hut", "hybrid", "hydrant", "hymn", "ibis",
    "iceberg", "icon", "ideal", "idle", "iguana", "image", "impact", "include", "index", "indigo", "inform",
    "initial", "ink", "input", "inquire", "insect", "inspire", "instant", "intend", "invest", "involve", "island",
    "ivory", "ivy", "jacket", "jaguar", "jam", "jasmine", "jazz", "jeans", "jerky", "jersey", "jet", "jigsaw",
    "jingle", "jog", "journal", "joyful", "juggle", "jump", "junior", "keg", "kettle", "keyhole", "kiln", "kiosk",
    "kitchen", "kitten", "knee", "knob", "label", "ladle", "lagoon", "lake", "lantern", "laptop", "large", "lasso",
    "latch", "lattice", "laundry", "laurel", "lava", "leaflet", "leather", "legend", "lemur", "length", "lens",
    "leopard", "lesson", "level", "lilac", "lily", "limit", "lion", "liquid", "little", "lizard", "llama", "local",
    "locker", "lodge", "logic", "loop", "lounge", "lullaby", "lumber", "lunar", "lute", "lynx", "lyric", "machine",
    "magenta", "magic", "mailbox", "major", "maker", "mammoth", "manatee", "mango", "mantle", "manual", "maple",
    "margin", "market", "marmot", "marvel", "mascot", "mask", "matrix", "maximum", "meadow", "measure", "medium",
    "melody", "memory", "menu", "mercury", "meteor", "method", "migrate", "mild", "mimic", "mineral", "minimum",
    "minnow", "mirror", "misty", "mixture", "modern", "module", "moment", "monitor", "month", "moose", "morning",
    "mortar", "mosaic", "movie", "mud", "muffin", "mustard", "napkin", "nation", "navy", "nearby", "nebula", "needle",
    "nephew", "nest", "newborn", "nibble", "nickel", "nifty", "nine", "north", "notice", "novel", "nozzle", "nutmeg",
    "nylon", "oak", "oath", "oatmeal", "oblong", "occur", "ocean", "office", "olive", "omelet", "onion", "online",
    "opal", "opener", "opera", "opinion", "orbit", "orchard", "oregano", "orient", "oriole", "osprey", "otter",
    "outdoor", "outfit", "outside", "oven", "overall", "owner", "oxygen", "oyster", "package", "paddle", "page",
    "pajamas", "palace", "palette", "panda", "panel", "papaya", "paprika", "parade", "parcel", "park", "parsley",
    "partner", "pasta", "patio", "pause", "peach", "peanut", "pebble", "pecan", "pedal", "pencil", "penguin",
    "pennant", "perfect", "permit", "person", "phone", "photo", "piano", "picnic", "picture", "pier", "pilgrim",
    "pillow", "pioneer", "pivot", "plaid", "planet", "plate", "player", "plaza", "pluck", "pocket", "podium", "point",
    "polar", "pollen", "poncho", "popcorn", "portal", "potato", "pottery", "poultry", "praise", "present", "pretzel",
    "prism", "private", "project", "promise", "proper", "provide", "prune", "pudding", "pumpkin", "pupil", "puppet",
    "pyramid", "quaint", "quality", "quartz", "quilt", "quince", "rabbit", "raccoon", "radar", "rafter", "railway",
    "rainbow", "rally", "ramble", "random", "rapid", "rattle", "raven", "recall", "recess", "recipe", "recycle",
    "reef", "refine", "refresh", "refuge", "region", "relax", "relief", "remedy", "renew", "repair", "repeat",
    "report", "rescue", "retreat", "return", "reunion", "rhubarb", "rhyme", "rhythm", "rice", "ring", "rinse",
    "rooster", "rotate", "rowboat", "ruby", "ruffle", "runner", "safari", "saffron", "saga", "salmon", "salsa",
    "salt", "sandal", "sapling", "sardine", "satin", "sauce", "sausage", "sawdust", "scan", "scarf", "scholar",
    "science", "scissor", "scout", "screen", "scroll", "second", "secret", "section", "seesaw", "service", "sesame",
    "shallow", "shampoo", "shark", "sherbet", "shield", "shiny", "shirt", "shoe", "shower", "shrimp", "shrub",
    "sibling", "sierra", "signal", "silk", "silver", "simple", "siren", "sister", "sixteen", "skill", "skipper",
    "skyline", "sleepy", "sleigh", "slender", "smart", "smile", "smooth", "snail", "snow", "soap", "sofa", "sonata",
    "song", "soybean", "space", "spaniel", "spatula", "speaker", "speech", "spinach", "spiral", "splash", "spoon",
    "spot", "spray", "sprout", "spruce", "stable", "stadium", "staff", "stamp", "station", "stay", "steel", "stencil",
    "step", "sticker", "stitch", "stone", "straw", "street", "strong", "subject", "subway", "sugar", "survey",
    "sweater", "swift", "swing", "syrup", "system", "tackle", "tailor", "talent", "talon", "tandem", "tanker",
    "target", "tart", "taste", "teacher", "teapot", "tell", "tenant", "tender", "tennis", "tent", "term", "terrace",
    "thank", "thaw", "theory", "thermal", "thicket", "thirsty", "thistle", "thorn", "thrifty", "throne", "thumb",
    "tiger", "tilt", "timber", "tissue", "titan", "title", "toffee", "tomato", "tonight", "topic", "torch", "tornado",
    "total", "toucan", "tower", "toy", "track", "trade", "trail", "transit", "tray", "trend", "trim", "trophy",
    "trowel", "trumpet", "trust", "tuck", "tug", "tulip", "tundra", "tunnel", "turbine", "turnip", "turtle", "twelve",
    "twenty", "twig", "twist", "typical", "ukulele", "uncle", "under", "unfold", "uniform", "unique", "unit",
    "unlock", "unveil", "upbeat", "upgrade", "uphill", "upper", "uproar", "upset", "uptown", "urban", "urgent",
    "useful", "usual", "utensil", "vacant", "valiant", "valley", "vanilla", "variety", "varnish", "vase", "vector",
    "velvet", "vendor", "verb", "verify", "version", "veteran", "viaduct", "vibrant", "view", "village", "violet",
    "visible", "vital", "volcano", "volume", "voter", "voyage", "waffle", "wagon", "waiter", "walnut", "walrus",
    "wander", "warm", "wash", "wealth", "web", "weekend", "western", "whale", "wheat", "wicker", "wide", "widget",
    "wildcat", "window", "winery", "wisdom", "wishful", "wok", "wooden", "workout", "world", "wrestle", "yacht",
    "yard", "yodel", "yoga", "yogurt", "young", "zebra", "zesty", "zinc", "zodiac",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// How many letters must be changed, added or left out to get from one to the other.
    fn apart(a: &str, b: &str) -> usize {
        let (a, b) = (a.as_bytes(), b.as_bytes());
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (at, x) in a.iter().enumerate() {
            let mut next = vec![at + 1];
            for (to, y) in b.iter().enumerate() {
                let changed = row[to] + usize::from(x != y);
                next.push(changed.min(row[to + 1] + 1).min(next[to] + 1));
            }
            row = next;
        }
        row[b.len()]
    }

    #[test]
    fn the_list_is_sorted_and_every_word_is_short_and_plain() {
        assert!(LIST.is_sorted_by(|a, b| a < b), "sorted, and none twice");
        for word in LIST {
            assert!((3..=7).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase()), "{word}");
        }
    }

    #[test]
    fn no_word_is_easily_taken_for_another() {
        let begins: BTreeSet<&str> = LIST.iter().map(|word| &word[..word.len().min(4)]).collect();
        assert_eq!(begins.len(), LIST.len(), "four letters tell them apart");
        for (at, word) in LIST.iter().enumerate() {
            for other in &LIST[at + 1..] {
                assert!(!other.starts_with(word), "{word} {other}");
                assert!(apart(word, other) >= 2, "{word} {other}");
            }
        }
    }

    #[test]
    fn no_word_hurts_anybody() {
        let rude = [
            "ass", "bastard", "bitch", "bloody", "butt", "cock", "crap", "cunt", "damn", "dick", "dumb", "dyke", "fag",
            "fat", "fuck", "gay", "hell", "hoe", "idiot", "jerk", "kill", "lame", "moron", "murder", "naked", "nazi",
            "negro", "nude", "piss", "poop", "porn", "pussy", "queer", "rape", "retard", "sex", "shit", "slave",
            "slut", "stupid", "suicide", "tit", "ugly", "whore",
        ];
        assert!(rude.iter().all(|word| LIST.binary_search(word).is_err()));
    }

    #[test]
    fn words_are_those_of_one_claim_and_are_read_as_people_write_them() {
        let words = Words::of(Digest::of(b"a claim"));
        assert_ne!(words, Words::of(Digest::of(b"another")));
        assert_eq!(words.iter().count(), Words::COUNT);
        let told = words.to_string();
        assert_eq!(told.split(", ").map(|group| group.split(' ').count()).collect::<Vec<_>>(), GROUPS);
        let shouted = told.to_uppercase().replace(", ", " - ").replace(' ', "\n");
        assert_eq!(shouted.parse(), Ok(words));
        let few: Vec<&str> = words.iter().take(3).collect();
        assert!(words.begin_with(&read(&few.join("-")).unwrap()));
        assert!(few.join(" ").parse::<Words>().is_err(), "three are not seven");
        assert!(format!("{told} {}", few[0]).parse::<Words>().is_err());
        assert_eq!(read("xylophones"), None);
    }

    /// What machines and operators of other versions compute.
    #[test]
    fn the_words_of_a_digest_never_change() {
        assert_eq!(Words::of(Digest([0; 32])).to_string(), "caribou ground phone, camel leopard, tennis pillow");
        let hash = Digest::of(&[LABEL, &[0; 32]].concat()).0;
        assert_eq!(Words::of(Digest([0; 32])).0[0], u16::from(hash[0]) << 2 | u16::from(hash[1] >> 6));
    }
}
