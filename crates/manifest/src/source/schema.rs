//! A JSON Schema of the fleet for editors, made from the same table by which the reader checks.

use serde_json::{Map, Value, json};

use super::form::Form;
use super::keys::{FLEET, Section, Shape};

/// Draft 2020-12. Each file of a fleet fits it; what only the whole shows is for `freehold check`.
pub fn schema() -> Value {
    let mut schema = section(&FLEET);
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".to_owned(), json!("Freehold fleet"));
    Value::Object(schema)
}

fn section(section: &Section) -> Map<String, Value> {
    let mut properties = Map::new();
    for key in section.keys() {
        let mut value = shape(&key.shape);
        value.insert("description".to_owned(), json!(key.about));
        properties.insert(key.name.to_owned(), Value::Object(value));
    }
    let needed: Vec<_> = section.keys().filter(|key| key.needed).map(|key| key.name).collect();
    let mut all = Map::new();
    // A section that needs nothing may be left empty: `web-1:`.
    let empty = needed.is_empty() && section.one_of.is_empty();
    all.insert("type".to_owned(), if empty { json!(["object", "null"]) } else { json!("object") });
    all.insert("properties".to_owned(), Value::Object(properties));
    all.insert("additionalProperties".to_owned(), json!(false));
    if !needed.is_empty() {
        all.insert("required".to_owned(), json!(needed));
    }
    if !section.one_of.is_empty() {
        let one = section.one_of.iter().map(|name| json!({ "required": [name] }));
        all.insert("oneOf".to_owned(), Value::Array(one.collect()));
    }
    all
}

fn shape(wanted: &Shape) -> Map<String, Value> {
    let value = match wanted {
        Shape::Text(form) => return text(*form),
        Shape::Texts(form) => {
            let one = Value::Object(text(*form));
            json!({ "anyOf": [one, { "type": "array", "items": one }] })
        }
        Shape::Words(form) => json!({ "type": "array", "items": text(*form), "minItems": 1, "maxItems": 64 }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Whole { least, most } => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Shape::Choice(choices) => json!({ "enum": choices }),
        Shape::Map(form, of) => Value::Object(map(*form, of)),
        Shape::MapOrNames(form, of) => {
            json!({ "anyOf": [map(*form, of), { "type": "array", "items": text(*form) }] })
        }
        Shape::Section(inner) => return section(inner),
        Shape::TextOr(form, inner) => json!({ "anyOf": [text(*form), section(inner)] }),
    };
    match value {
        Value::Object(value) => value,
        _ => Map::new(),
    }
}

fn map(form: Form, of: &Shape) -> Map<String, Value> {
    let mut all = Map::new();
    all.insert("type".to_owned(), json!(["object", "null"]));
    let names = form.pattern().map_or_else(|| json!({}), |pattern| json!({ "pattern": pattern }));
    all.insert("propertyNames".to_owned(), names);
    all.insert("additionalProperties".to_owned(), Value::Object(shape(of)));
    all
}

/// What looks like a number or a flag is a text all the same to the reader; an editor may see it otherwise.
fn text(form: Form) -> Map<String, Value> {
    let mut all = Map::new();
    let loose = matches!(form, Form::LabelPart | Form::Name | Form::Machine | Form::Free { .. });
    all.insert("type".to_owned(), if loose { json!(["string", "number", "boolean"]) } else { json!("string") });
    if let Some(pattern) = form.pattern() {
        all.insert("pattern".to_owned(), json!(pattern));
    }
    all
}
