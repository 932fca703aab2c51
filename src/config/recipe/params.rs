//! Parameters: declarations, and values checked against them.

use super::identifier;
use crate::config::check::{found, is_version};
use crate::config::cx::Cx;
use crate::config::inventory::literal;
use crate::config::table::{self, Table};
use crate::config::{Data, Key, Node, Param, ParamType, scalar};
use crate::diag::{Code, Diag};
use crate::model::{SecretStore, Value};
use indexmap::IndexMap;

/// Types of parameters.
pub(in crate::config) const TYPES: [&str; 8] = ["text", "bool", "int", "enum", "list", "map", "version", "secret"];

/// Reads `params:`.
pub(super) fn read(node: Option<&Node>, cx: &mut Cx<'_>) -> IndexMap<String, Param> {
    let entries = table::entries(node, "params", &mut cx.diags);
    entries.iter().filter_map(|(key, node)| Some((key.text.clone(), param(key, node, cx)?))).collect()
}

fn param(key: &Key, node: &Node, cx: &mut Cx<'_>) -> Option<Param> {
    if !identifier(&key.text, "a parameter", key.span, cx) {
        return None;
    }
    let table = Table::open(node, "a parameter", &["type", "of", "values", "default", "doc"], &mut cx.diags)?;
    let doc = table.text("doc", &mut cx.diags).unwrap_or_default();
    let ty = declared_type(&table, cx)?;
    let mut param = Param { name: key.text.clone(), ty, default: None, unread: false, doc, span: key.span };
    if let Some(default) = table.get("default") {
        param.default = self::default(&param, default, cx);
        param.unread = param.default.is_none();
    }
    Some(param)
}

fn default(param: &Param, node: &Node, cx: &mut Cx<'_>) -> Option<Value> {
    literal(node, "a default", cx);
    if param.ty == ParamType::Secret {
        cx.push(
            Diag::error(Code::BadParam, format!("the secret `{}` cannot have a default", param.name)).at(node.span),
        );
        return None;
    }
    match typed(&param.ty, node, &param.name, cx) {
        Ok(value) => Some(value),
        Err(diag) => {
            cx.push(*diag);
            None
        }
    }
}

fn declared_type(table: &Table<'_>, cx: &mut Cx<'_>) -> Option<ParamType> {
    let node = table.require("type", &mut cx.diags)?;
    let text = table::text(node, "type", &mut cx.diags)?;
    let ty = match text.as_str() {
        "enum" => Some(ParamType::Enum(values(table, cx))),
        "list" => Some(ParamType::List(Box::new(inner(table, cx)))),
        "map" => Some(ParamType::Map(Box::new(inner(table, cx)))),
        other => simple(other),
    };
    if ty.is_none() {
        let diag = Diag::error(Code::BadParam, format!("`{text}` is not a type of parameters")).at(node.span);
        cx.push(diag.suggest(&text, TYPES));
    }
    report_extra(table, &text, cx);
    ty
}

fn report_extra(table: &Table<'_>, ty: &str, cx: &mut Cx<'_>) {
    for (key, fits) in [("values", ty == "enum"), ("of", matches!(ty, "list" | "map"))] {
        if let (Some(key), false) = (table.key(key), fits) {
            cx.push(
                Diag::error(Code::BadParam, format!("`{}` does not go with the type `{ty}`", key.text)).at(key.span),
            );
        }
    }
}

fn simple(text: &str) -> Option<ParamType> {
    Some(match text {
        "text" => ParamType::Text,
        "bool" => ParamType::Bool,
        "int" => ParamType::Int,
        "version" => ParamType::Version,
        "secret" => ParamType::Secret,
        _ => return None,
    })
}

fn values(table: &Table<'_>, cx: &mut Cx<'_>) -> Vec<String> {
    if table.require("values", &mut cx.diags).is_none() {
        return Vec::new();
    }
    let items = table.items("values", &mut cx.diags);
    items.into_iter().filter_map(|node| table::text(node, "values", &mut cx.diags)).collect()
}

/// The type of elements: text when not said; lists of lists are not.
fn inner(table: &Table<'_>, cx: &mut Cx<'_>) -> ParamType {
    let Some(node) = table.get("of") else { return ParamType::Text };
    let text = table::text(node, "of", &mut cx.diags).unwrap_or_default();
    match text.as_str() {
        // What is inside is any list or map: deeper types are not declared.
        "list" => ParamType::List(Box::new(ParamType::Text)),
        "map" => ParamType::Map(Box::new(ParamType::Text)),
        "any" => ParamType::Any,
        other => simple(other).unwrap_or_else(|| {
            let diag = Diag::error(Code::BadParam, format!("`{other}` is not a type of elements")).at(node.span);
            cx.push(diag.suggest(other, ["text", "bool", "int", "version", "secret", "list", "map", "any"]));
            ParamType::Text
        }),
    }
}

/// Types a value. Secrets are read and become placeholders.
///
/// # Errors
/// [`Code::BadParam`] at the value's place.
pub(in crate::config) fn typed(ty: &ParamType, node: &Node, name: &str, cx: &mut Cx<'_>) -> Result<Value, Box<Diag>> {
    match (ty, &node.data) {
        (_, Data::Unknown(need)) => {
            let diag =
                bad(node, format!("parameter `{name}` must be known before hosts are looked at: {}", need.describe()));
            Err(Box::new(diag.hint("read facts in the steps of a recipe instead")))
        }
        (ParamType::List(inner), Data::Seq(items)) => items
            .iter()
            .enumerate()
            .map(|(at, item)| typed(inner, item, &format!("{name}[{at}]"), cx))
            .collect::<Result<Vec<_>, _>>()
            .map(Value::Array),
        (ParamType::Map(inner), Data::Map(entries)) => {
            let pair = |(key, node): &(Key, Node)| {
                Ok((key.text.clone(), typed(inner, node, &format!("{name}.{}", key.text), cx)?))
            };
            entries.iter().map(pair).collect::<Result<_, _>>().map(Value::Object)
        }
        (ParamType::Any, _) => Ok(scalar::value(node)),
        (ParamType::Secret, Data::Scalar { text, .. }) if SecretStore::mentions(text) => Ok(Value::from(text.as_str())),
        (ParamType::Secret, _) => match cx.secret(node, &format!("parameter `{name}`")) {
            Some(placeholder) => Ok(Value::from(placeholder)),
            // The mistake has its place already; the value only has to stand for something.
            None => Ok(Value::Null),
        },
        (_, Data::Scalar { text, quoted }) => {
            scalar_value(ty, text, *quoted).ok_or_else(|| Box::new(refused(ty, node, name)))
        }
        _ => Err(Box::new(refused(ty, node, name))),
    }
}

fn scalar_value(ty: &ParamType, text: &str, quoted: bool) -> Option<Value> {
    match ty {
        ParamType::Text => Some(Value::from(text)),
        ParamType::Bool if !quoted => scalar::boolean(text).map(Value::Bool),
        ParamType::Int if !quoted => scalar::int(text).map(Value::from),
        ParamType::Enum(values) => values.iter().any(|value| value == text).then(|| Value::from(text)),
        ParamType::Version => is_version(text).then(|| Value::from(text)),
        _ => None,
    }
}

fn bad(node: &Node, message: String) -> Diag {
    Diag::error(Code::BadParam, message).at(node.span)
}

fn refused(ty: &ParamType, node: &Node, name: &str) -> Diag {
    let diag = bad(node, format!("parameter `{name}` must be {}, found {}", expected(ty), found(node)));
    match (ty, &node.data) {
        (ParamType::Enum(values), Data::Scalar { text, .. }) => {
            let diag = bad(node, format!("parameter `{name}` cannot be `{}`", scalar::shorten(text)));
            diag.suggest(text, values.iter().map(String::as_str))
        }
        (ParamType::Bool, Data::Scalar { text, .. }) => match scalar::lookalike_bool(text) {
            Some(meant) => diag.hint(format!("write `{meant}` without quotes")),
            None => diag,
        },
        (ParamType::List(_), Data::Scalar { text, .. }) => diag.hint(format!("write `[{}]`", scalar::shorten(text))),
        _ => diag,
    }
}

fn expected(ty: &ParamType) -> &'static str {
    match ty {
        ParamType::Text => "text",
        ParamType::Bool => "`true` or `false`",
        ParamType::Int => "a whole number",
        ParamType::Enum(_) => "one of its values",
        ParamType::List(_) => "a list",
        ParamType::Map(_) => "a map",
        ParamType::Version => "a version",
        ParamType::Secret => "a secret",
        ParamType::Any => "a value",
    }
}
