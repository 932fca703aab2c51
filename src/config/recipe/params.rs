//! Reads declarations of parameters and checks values against them.

use super::identifier;
use crate::config::check::{found, is_version};
use crate::config::cx::LoadContext;
use crate::config::inventory::literal;
use crate::config::table::{self, YamlTable};
use crate::config::{ParamType, RecipeParam, YamlData, YamlKey, YamlNode, scalar};
use crate::diag::{Code, Diag, Span};
use crate::model::{SecretStore, Value};
use indexmap::IndexMap;

/// Types of parameters.
pub(in crate::config) const TYPES: [&str; 9] =
    ["text", "bool", "int", "enum", "list", "map", "version", "pci-address", "secret"];

/// Types of the keys of a map.
pub(in crate::config) const KEY_TYPES: [&str; 2] = ["text", "pci-address"];

/// Reads `params:`.
pub(super) fn read(node: Option<&YamlNode>, cx: &mut LoadContext<'_>) -> IndexMap<String, RecipeParam> {
    let entries = table::entries(node, "params", &mut cx.diags);
    entries.iter().filter_map(|(key, node)| Some((key.text.clone(), param(key, node, cx)?))).collect()
}

fn param(key: &YamlKey, node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<RecipeParam> {
    if !identifier(&key.text, "a parameter", key.span, cx) {
        return None;
    }
    let table =
        YamlTable::open(node, "a parameter", &["type", "of", "keys", "values", "default", "doc"], &mut cx.diags)?;
    let doc = table.text("doc", &mut cx.diags).unwrap_or_default();
    let ty = declared_type(&table, cx)?;
    let mut param = RecipeParam { name: key.text.clone(), ty, default: None, unread: false, doc, span: key.span };
    if let Some(default) = table.get("default") {
        param.default = self::default(&param, default, cx);
        param.unread = param.default.is_none();
    }
    Some(param)
}

fn default(param: &RecipeParam, node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<Value> {
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

fn declared_type(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<ParamType> {
    let node = table.require("type", &mut cx.diags)?;
    let text = table::text(node, "type", &mut cx.diags)?;
    let ty = match text.as_str() {
        "enum" => Some(ParamType::Enum(values(table, cx))),
        "list" => Some(ParamType::List(Box::new(inner(table, cx)))),
        "map" => Some(map_of(table, inner(table, cx), cx)),
        other => simple(other),
    };
    if ty.is_none() {
        let diag = Diag::error(Code::BadParam, format!("`{text}` is not a valid parameter type")).at(node.span);
        cx.push(diag.suggest(&text, TYPES));
    }
    report_extra(table, &text, cx);
    ty
}

fn report_extra(table: &YamlTable<'_>, ty: &str, cx: &mut LoadContext<'_>) {
    for (key, fits) in [("values", ty == "enum"), ("of", matches!(ty, "list" | "map")), ("keys", ty == "map")] {
        if let (Some(key), false) = (table.key(key), fits) {
            cx.push(
                Diag::error(Code::BadParam, format!("`{}` is not supported by the type `{ty}`", key.text)).at(key.span),
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
        "pci-address" => ParamType::PciAddress,
        "secret" => ParamType::Secret,
        _ => return None,
    })
}

fn values(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Vec<String> {
    if table.require("values", &mut cx.diags).is_none() {
        return Vec::new();
    }
    let items = table.items("values", &mut cx.diags);
    items.into_iter().filter_map(|node| table::text(node, "values", &mut cx.diags)).collect()
}

/// Reads the type of the elements; defaults to text.
fn inner(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> ParamType {
    let Some(node) = table.get("of") else { return ParamType::Text };
    let text = table::text(node, "of", &mut cx.diags).unwrap_or_default();
    match text.as_str() {
        // The inner list or map holds text: deeper types cannot be declared.
        "list" => ParamType::List(Box::new(ParamType::Text)),
        "map" => ParamType::Map { keys: Box::new(ParamType::Text), values: Box::new(ParamType::Text) },
        "any" => ParamType::Any,
        other => simple(other).unwrap_or_else(|| {
            let diag = Diag::error(Code::BadParam, format!("`{other}` is not a valid element type")).at(node.span);
            let types = ["text", "bool", "int", "version", "pci-address", "secret", "list", "map", "any"];
            cx.push(diag.suggest(other, types));
            ParamType::Text
        }),
    }
}

fn map_of(table: &YamlTable<'_>, values: ParamType, cx: &mut LoadContext<'_>) -> ParamType {
    let keys = match table.get("keys") {
        Some(node) => key_type(node, cx),
        None => ParamType::Text,
    };
    ParamType::Map { keys: Box::new(keys), values: Box::new(values) }
}

fn key_type(node: &YamlNode, cx: &mut LoadContext<'_>) -> ParamType {
    let text = table::text(node, "keys", &mut cx.diags).unwrap_or_default();
    match text.as_str() {
        known if KEY_TYPES.contains(&known) => simple(known).unwrap_or(ParamType::Text),
        other => {
            let diag = Diag::error(Code::BadParam, format!("`{other}` is not a valid key type")).at(node.span);
            cx.push(diag.suggest(other, KEY_TYPES));
            ParamType::Text
        }
    }
}

/// Converts a value to a type. Secrets are read and replaced by placeholders.
///
/// # Errors
/// [`Code::BadParam`] at the value's place.
pub(in crate::config) fn typed(
    ty: &ParamType,
    node: &YamlNode,
    name: &str,
    cx: &mut LoadContext<'_>,
) -> Result<Value, Box<Diag>> {
    match (ty, &node.data) {
        (_, YamlData::Unknown(need)) => {
            let diag =
                bad(node, format!("parameter `{name}` must be known before facts are observed: {}", need.describe()));
            Err(Box::new(diag.hint("read facts in the steps of a recipe instead")))
        }
        (ParamType::List(inner), YamlData::Seq(items)) => list(inner, items, name, cx),
        (ParamType::Map { keys, values }, YamlData::Map(entries)) => {
            let mut typed_entries = serde_json::Map::new();
            for (key, node) in entries {
                let value = typed(values, node, &format!("{name}.{}", key.text), cx)?;
                let key_text = typed_key(keys, key, name)?;
                if typed_entries.insert(key_text.clone(), value).is_some() {
                    return Err(Box::new(twice(name, &key_text, key.span)));
                }
            }
            Ok(Value::Object(typed_entries))
        }
        (ParamType::Any, _) => Ok(scalar::value(node)),
        (ParamType::Secret, YamlData::Scalar { text, .. }) if SecretStore::mentions(text) => {
            Ok(Value::from(text.as_str()))
        }
        (ParamType::Secret, _) => match cx.secret(node, &format!("parameter `{name}`")) {
            Some(placeholder) => Ok(Value::from(placeholder)),
            // The error is already reported; callers skip the null value.
            None => Ok(Value::Null),
        },
        (_, YamlData::Scalar { text, quoted }) => {
            scalar_value(ty, text, *quoted).ok_or_else(|| Box::new(refused(ty, node, name)))
        }
        _ => Err(Box::new(refused(ty, node, name))),
    }
}

fn list(inner: &ParamType, items: &[YamlNode], name: &str, cx: &mut LoadContext<'_>) -> Result<Value, Box<Diag>> {
    let mut values = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let value = typed(inner, item, &format!("{name}[{at}]"), cx)?;
        // Addresses are compared after normalization: two spellings of one address would count as two devices.
        if let (ParamType::PciAddress, Value::String(address)) = (inner, &value)
            && values.contains(&value)
        {
            return Err(Box::new(twice(name, address, item.span)));
        }
        values.push(value);
    }
    Ok(Value::Array(values))
}

fn typed_key(ty: &ParamType, key: &YamlKey, name: &str) -> Result<String, Box<Diag>> {
    if *ty != ParamType::PciAddress {
        return Ok(key.text.clone());
    }
    parse_pci_address(&key.text).ok_or_else(|| {
        let words = format!("keys of parameter `{name}` must be PCI addresses, found `{}`", scalar::shorten(&key.text));
        Box::new(Diag::error(Code::BadParam, words).at(key.span).hint(PCI_FORM))
    })
}

fn twice(name: &str, what: &str, span: Span) -> Diag {
    Diag::error(Code::BadParam, format!("parameter `{name}` contains `{what}` twice")).at(span)
}

const PCI_FORM: &str = "write it as `lspci` prints it: `18:00.0`, or with its domain `0000:18:00.0`";

/// Converts a PCI address as printed by `lspci` or `lspci -D` to the kernel's name of the function, `0000:18:00.0`.
fn parse_pci_address(text: &str) -> Option<String> {
    let (front, function) = text.split_once('.')?;
    let (front, device) = front.rsplit_once(':')?;
    let (domain, bus) = front.rsplit_once(':').unwrap_or(("0000", front));
    // Domains of a Volume Management Device (VMD) have more than four digits.
    let hex = |part: &str, digits: std::ops::RangeInclusive<usize>| {
        digits.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let is_device = hex(device, 2..=2) && u8::from_str_radix(device, 16).is_ok_and(|number| number < 32);
    let is_function = matches!(function.as_bytes(), [b'0'..=b'7']);
    let fits = hex(domain, 4..=8) && hex(bus, 2..=2) && is_device && is_function;
    fits.then(|| format!("{domain}:{bus}:{device}.{function}").to_lowercase())
}

fn scalar_value(ty: &ParamType, text: &str, quoted: bool) -> Option<Value> {
    match ty {
        ParamType::Text => Some(Value::from(text)),
        ParamType::Bool if !quoted => scalar::boolean(text).map(Value::Bool),
        ParamType::Int if !quoted => scalar::int(text).map(Value::from),
        ParamType::Enum(values) => values.iter().any(|value| value == text).then(|| Value::from(text)),
        ParamType::Version => is_version(text).then(|| Value::from(text)),
        ParamType::PciAddress => parse_pci_address(text).map(Value::from),
        _ => None,
    }
}

fn bad(node: &YamlNode, message: String) -> Diag {
    Diag::error(Code::BadParam, message).at(node.span)
}

fn refused(ty: &ParamType, node: &YamlNode, name: &str) -> Diag {
    let diag = bad(node, format!("parameter `{name}` must be {}, found {}", expected(ty), found(node)));
    match (ty, &node.data) {
        (ParamType::Enum(values), YamlData::Scalar { text, .. }) => {
            let diag = bad(node, format!("parameter `{name}` cannot be `{}`", scalar::shorten(text)));
            diag.suggest(text, values.iter().map(String::as_str))
        }
        (ParamType::Bool, YamlData::Scalar { text, .. }) => match scalar::lookalike_bool(text) {
            Some(meant) => diag.hint(format!("write `{meant}` without quotes")),
            None => diag,
        },
        (ParamType::PciAddress, _) => diag.hint(PCI_FORM),
        (ParamType::List(_), YamlData::Scalar { text, .. }) => {
            diag.hint(format!("write `[{}]`", scalar::shorten(text)))
        }
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
        ParamType::Map { .. } => "a map",
        ParamType::Version => "a version",
        ParamType::PciAddress => "a PCI address",
        ParamType::Secret => "a secret",
        ParamType::Any => "a value",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses_are_read_as_lspci_prints_them() {
        for (written, read) in [
            ("18:00.0", Some("0000:18:00.0")),
            ("0000:18:00.0", Some("0000:18:00.0")),
            ("AF:1f.7", Some("0000:af:1f.7")),
            ("10000:E1:00.0", Some("10000:e1:00.0")),
            ("18:00", None),
            ("18:00.8", None),
            ("18:20.0", None),
            ("8:00.0", None),
            ("000:18:00.0", None),
            ("0000:18:00.0 ", None),
            ("0:0000:18:00.0", None),
            ("mlx5_0", None),
            ("", None),
        ] {
            assert_eq!(parse_pci_address(written).as_deref(), read, "{written}");
        }
    }
}
