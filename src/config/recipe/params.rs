//! Reads declarations of parameters and checks values against them.

use super::expr::check_identifier;
use crate::config::field_check::{describe_found, is_version};
use crate::config::identifier::check_literal;
use crate::config::load_context::LoadContext;
use crate::config::yaml_node::list_scalars;
use crate::config::yaml_table::{self, YamlTable};
use crate::config::{ParamType, RecipeParam, YamlData, YamlKey, YamlNode, scalar};
use crate::diag::{Diag, DiagCode, Span};
use crate::model::{SecretStore, Value};
use indexmap::IndexMap;

/// Types of parameters.
pub(in crate::config) const PARAM_TYPES: [&str; 9] =
    ["text", "bool", "int", "enum", "list", "map", "version", "pci-address", "secret"];

/// Types of the keys of a map.
pub(in crate::config) const KEY_TYPES: [&str; 2] = ["text", "pci-address"];

/// Reads `params:`.
pub(super) fn read_params(node: Option<&YamlNode>, cx: &mut LoadContext<'_>) -> IndexMap<String, RecipeParam> {
    let entries = yaml_table::expect_entries(node, "params", &mut cx.diags);
    entries.iter().map(|(key, node)| (key.text.clone(), read_param(key, node, cx))).collect()
}

/// Reads a parameter. One with an error is still a parameter: entries that set it and templates that read it are not wrong.
fn read_param(key: &YamlKey, node: &YamlNode, cx: &mut LoadContext<'_>) -> RecipeParam {
    check_identifier(&key.text, "a parameter", key.span, cx);
    let (name, doc) = (key.text.clone(), String::new());
    let mut param = RecipeParam { name, ty: ParamType::Any, default: None, unread: false, doc, span: key.span };
    let keys = ["type", "of", "keys", "values", "default", "doc"];
    let Some(table) = YamlTable::open(node, "a parameter", &keys, &mut cx.diags) else { return param };
    param.doc = table.get_text("doc", &mut cx.diags).unwrap_or_default();
    param.ty = read_param_type(&table, cx).unwrap_or(ParamType::Any);
    if let Some(default) = table.get("default") {
        param.default = self::read_default(&param, default, cx);
        param.unread = param.default.is_none();
    }
    param
}

fn read_default(param: &RecipeParam, node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<Value> {
    if param.ty == ParamType::Secret {
        let message = format!("the secret `{}` cannot have a default", param.name);
        let diag = Diag::error(DiagCode::BadParam, message).with_span(node.span);
        cx.push_diag(list_scalars(node).into_iter().fold(diag, Diag::hiding));
        return None;
    }
    check_literal(node, "a default", cx);
    match parse_param_value(&param.ty, node, &param.name, cx) {
        Ok(value) => Some(value),
        Err(diag) => {
            cx.push_diag(*diag);
            None
        }
    }
}

fn read_param_type(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<ParamType> {
    let node = table.require_value("type", &mut cx.diags)?;
    let text = yaml_table::expect_text(node, "type", &mut cx.diags)?;
    let ty = match text.as_str() {
        "enum" => Some(ParamType::Enum(read_enum_values(table, cx))),
        "list" => Some(ParamType::List(Box::new(read_element_type(table, cx)))),
        "map" => Some(read_map_type(table, read_element_type(table, cx), cx)),
        other => parse_simple_type(other),
    };
    if ty.is_none() {
        let diag =
            Diag::error(DiagCode::BadParam, format!("`{text}` is not a valid parameter type")).with_span(node.span);
        cx.push_diag(diag.suggest_name(&text, PARAM_TYPES));
    }
    report_extra_keys(table, &text, cx);
    ty
}

fn report_extra_keys(table: &YamlTable<'_>, ty: &str, cx: &mut LoadContext<'_>) {
    for (key, fits) in [("values", ty == "enum"), ("of", matches!(ty, "list" | "map")), ("keys", ty == "map")] {
        if let (Some(key), false) = (table.find_key(key), fits) {
            cx.push_diag(
                Diag::error(DiagCode::BadParam, format!("`{}` is not supported by the type `{ty}`", key.text))
                    .with_span(key.span),
            );
        }
    }
}

fn parse_simple_type(text: &str) -> Option<ParamType> {
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

fn read_enum_values(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Vec<String> {
    if table.require_value("values", &mut cx.diags).is_none() {
        return Vec::new();
    }
    let items = table.get_items("values", &mut cx.diags);
    items.into_iter().filter_map(|node| yaml_table::expect_text(node, "values", &mut cx.diags)).collect()
}

/// Reads the type of the elements; defaults to text.
fn read_element_type(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> ParamType {
    let Some(node) = table.get("of") else { return ParamType::Text };
    let text = yaml_table::expect_text(node, "of", &mut cx.diags).unwrap_or_default();
    match text.as_str() {
        // The inner list or map holds text: deeper types cannot be declared.
        "list" => ParamType::List(Box::new(ParamType::Text)),
        "map" => ParamType::Map { keys: Box::new(ParamType::Text), values: Box::new(ParamType::Text) },
        "any" => ParamType::Any,
        other => parse_simple_type(other).unwrap_or_else(|| {
            let diag =
                Diag::error(DiagCode::BadParam, format!("`{other}` is not a valid element type")).with_span(node.span);
            let types = ["text", "bool", "int", "version", "pci-address", "secret", "list", "map", "any"];
            cx.push_diag(diag.suggest_name(other, types));
            ParamType::Text
        }),
    }
}

fn read_map_type(table: &YamlTable<'_>, values: ParamType, cx: &mut LoadContext<'_>) -> ParamType {
    let keys = match table.get("keys") {
        Some(node) => read_key_type(node, cx),
        None => ParamType::Text,
    };
    ParamType::Map { keys: Box::new(keys), values: Box::new(values) }
}

fn read_key_type(node: &YamlNode, cx: &mut LoadContext<'_>) -> ParamType {
    let text = yaml_table::expect_text(node, "keys", &mut cx.diags).unwrap_or_default();
    match text.as_str() {
        known if KEY_TYPES.contains(&known) => parse_simple_type(known).unwrap_or(ParamType::Text),
        other => {
            let diag =
                Diag::error(DiagCode::BadParam, format!("`{other}` is not a valid key type")).with_span(node.span);
            cx.push_diag(diag.suggest_name(other, KEY_TYPES));
            ParamType::Text
        }
    }
}

/// Converts a value to a type. Secrets are read and replaced by placeholders.
///
/// # Errors
/// [`DiagCode::BadParam`] at the value's place.
pub(in crate::config) fn parse_param_value(
    ty: &ParamType,
    node: &YamlNode,
    name: &str,
    cx: &mut LoadContext<'_>,
) -> Result<Value, Box<Diag>> {
    match (ty, &node.data) {
        (_, YamlData::Unknown(need)) => {
            let diag = build_bad_param_diag(
                node,
                format!("parameter `{name}` must be known before facts are observed: {}", need.describe()),
            );
            Err(Box::new(diag.hint("read facts in the steps of a recipe instead")))
        }
        (ParamType::List(inner), YamlData::Seq(items)) => parse_list(inner, items, name, cx),
        (ParamType::Map { keys, values }, YamlData::Map(entries)) => {
            let mut typed_entries = serde_json::Map::new();
            for (key, node) in entries {
                let value = parse_param_value(values, node, &format!("{name}.{}", key.text), cx)?;
                let key_text = parse_map_key(keys, key, name)?;
                if typed_entries.insert(key_text.clone(), value).is_some() {
                    return Err(Box::new(build_duplicate_diag(name, &key_text, key.span)));
                }
            }
            Ok(Value::Object(typed_entries))
        }
        (ParamType::Any, _) => Ok(scalar::node_to_value(node)),
        (ParamType::Secret, YamlData::Scalar { text, .. }) if SecretStore::has_placeholder(text) => {
            Ok(Value::from(text.as_str()))
        }
        (ParamType::Secret, _) => match cx.read_secret(node, &format!("parameter `{name}`")) {
            Some(placeholder) => Ok(Value::from(placeholder)),
            // The error is already reported; callers skip the null value.
            None => Ok(Value::Null),
        },
        (_, YamlData::Scalar { text, quoted }) => {
            parse_scalar_value(ty, text, *quoted).ok_or_else(|| Box::new(build_refused_value_diag(ty, node, name)))
        }
        _ => Err(Box::new(build_refused_value_diag(ty, node, name))),
    }
}

fn parse_list(inner: &ParamType, items: &[YamlNode], name: &str, cx: &mut LoadContext<'_>) -> Result<Value, Box<Diag>> {
    let mut values = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let value = parse_param_value(inner, item, &format!("{name}[{at}]"), cx)?;
        // Addresses are compared after normalization: two spellings of one address would count as two devices.
        if let (ParamType::PciAddress, Value::String(address)) = (inner, &value)
            && values.contains(&value)
        {
            return Err(Box::new(build_duplicate_diag(name, address, item.span)));
        }
        values.push(value);
    }
    Ok(Value::Array(values))
}

fn parse_map_key(ty: &ParamType, key: &YamlKey, name: &str) -> Result<String, Box<Diag>> {
    if *ty != ParamType::PciAddress {
        return Ok(key.text.clone());
    }
    parse_pci_address(&key.text).ok_or_else(|| {
        let words =
            format!("keys of parameter `{name}` must be PCI addresses, found `{}`", scalar::shorten_text(&key.text));
        Box::new(Diag::error(DiagCode::BadParam, words).with_span(key.span).hint(PCI_FORM))
    })
}

fn build_duplicate_diag(name: &str, what: &str, span: Span) -> Diag {
    Diag::error(DiagCode::BadParam, format!("parameter `{name}` contains `{what}` twice")).with_span(span)
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

fn parse_scalar_value(ty: &ParamType, text: &str, quoted: bool) -> Option<Value> {
    match ty {
        ParamType::Text => Some(Value::from(text)),
        ParamType::Bool if !quoted => scalar::parse_bool(text).map(Value::Bool),
        ParamType::Int if !quoted => scalar::parse_int(text).map(Value::from),
        ParamType::Enum(values) => values.iter().any(|value| value == text).then(|| Value::from(text)),
        ParamType::Version => is_version(text).then(|| Value::from(text)),
        ParamType::PciAddress => parse_pci_address(text).map(Value::from),
        _ => None,
    }
}

fn build_bad_param_diag(node: &YamlNode, message: String) -> Diag {
    Diag::error(DiagCode::BadParam, message).with_span(node.span)
}

fn build_refused_value_diag(ty: &ParamType, node: &YamlNode, name: &str) -> Diag {
    let diag = build_bad_param_diag(
        node,
        format!("parameter `{name}` must be {}, found {}", describe_expected_param(ty), describe_found(node)),
    );
    match (ty, &node.data) {
        (ParamType::Enum(values), YamlData::Scalar { text, .. }) => {
            let diag =
                build_bad_param_diag(node, format!("parameter `{name}` cannot be `{}`", scalar::shorten_text(text)));
            diag.suggest_name(text, values.iter().map(String::as_str))
        }
        (ParamType::Bool, YamlData::Scalar { text, .. }) => match scalar::guess_bool(text) {
            Some(meant) => diag.hint(format!("write `{meant}` without quotes")),
            None => diag,
        },
        (ParamType::PciAddress, _) => diag.hint(PCI_FORM),
        (ParamType::List(_), YamlData::Scalar { text, .. }) => {
            diag.hint(format!("write `[{}]`", scalar::shorten_text(text)))
        }
        _ => diag,
    }
}

fn describe_expected_param(ty: &ParamType) -> &'static str {
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
