//! Keys of a TOML document as data: parsing, comparison by value, and edits that preserve everything else.

use crate::model::Value;
use serde_json::{Map, json};
use std::collections::BTreeMap;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Key, Table, TableLike};

/// The path of a key: `["plugins", "io.containerd.grpc.v1.cri", "sandbox_image"]`.
pub(super) type TomlKeyPath = Vec<String>;

/// Every key that has a value, with its path. An empty table is a value; a table with keys is not. Two documents with the
/// same keys mean the same, however they are written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TomlKeys(pub BTreeMap<TomlKeyPath, Value>);

impl TomlKeys {
    /// Flattens a nested value, such as [`to_tree`](Self::to_tree) returns.
    pub fn from_tree(tree: &Value) -> Self {
        let mut keys = BTreeMap::new();
        collect_leaves(tree, &mut Vec::new(), &mut keys);
        // The document itself is a table, but not a key.
        keys.remove(&Vec::new());
        Self(keys)
    }

    /// Returns the keys as one nested value.
    pub fn to_tree(&self) -> Value {
        let mut tree = Map::new();
        for (path, value) in &self.0 {
            insert_leaf(&mut tree, path, value);
        }
        Value::Object(tree)
    }
}

fn collect_leaves(value: &Value, path: &mut TomlKeyPath, keys: &mut BTreeMap<TomlKeyPath, Value>) {
    match value.as_object().filter(|table| !table.is_empty()) {
        None => drop(keys.insert(path.clone(), value.clone())),
        Some(table) => {
            for (name, inner) in table {
                path.push(name.clone());
                collect_leaves(inner, path, keys);
                path.pop();
            }
        }
    }
}

fn insert_leaf(tree: &mut Map<String, Value>, path: &[String], value: &Value) {
    match path {
        [] => {}
        [name] => drop(tree.insert(name.clone(), value.clone())),
        [name, rest @ ..] => {
            let inner = tree.entry(name.clone()).or_insert_with(|| json!({}));
            if let Value::Object(inner) = inner {
                insert_leaf(inner, rest, value);
            }
        }
    }
}

/// Returns a path as TOML writes it: `plugins."io.containerd.grpc.v1.cri".sandbox_image`.
pub(super) fn format_key_path(path: &[String]) -> String {
    let words: Vec<String> = path.iter().map(|name| Key::new(name).display_repr().into_owned()).collect();
    words.join(".")
}

/// A TOML text that is edited key by key; other keys, comments and layout are preserved.
#[derive(Clone, Debug)]
pub(super) struct TomlDocument(DocumentMut);

impl TomlDocument {
    /// Parses a text. The error is one line with the position.
    pub fn parse(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: toml_edit::TomlError| {
            let line = error.span().map_or(1, |span| text.get(..span.start).unwrap_or(text).matches('\n').count() + 1);
            format!("line {line}: {}", error.message().lines().collect::<Vec<_>>().join(", "))
        })
    }

    /// Returns every key that has a value.
    pub fn keys(&self) -> TomlKeys {
        TomlKeys::from_tree(&read_table(self.0.as_table()))
    }

    pub fn to_text(&self) -> String {
        self.0.to_string()
    }

    /// Sets a key; tables on the way to it are made. Anything else on the way is replaced.
    pub fn set(&mut self, path: &[String], value: &Value) {
        let Some((name, tables)) = path.split_last() else { return };
        let mut table: &mut dyn TableLike = self.0.as_table_mut();
        for step in tables {
            let item = table.entry(step).or_insert_with(implicit_table);
            if !item.is_table_like() {
                *item = implicit_table();
            }
            // Always true after the replacement.
            let Some(inner) = item.as_table_like_mut() else { return };
            table = inner;
        }
        match (table.get_mut(name), write_item(value)) {
            (Some(Item::Value(old)), Item::Value(mut new)) => {
                *new.decor_mut() = old.decor().clone();
                *old = new;
            }
            (_, new) => drop(table.insert(name, new)),
        }
    }

    /// Removes a key, and every table that has no keys left because of it.
    pub fn remove(&mut self, path: &[String]) {
        remove_key(self.0.as_table_mut(), path);
    }
}

fn remove_key(table: &mut dyn TableLike, path: &[String]) {
    match path {
        [] => {}
        [name] => drop(table.remove(name)),
        [name, rest @ ..] => {
            let Some(inner) = table.get_mut(name).and_then(Item::as_table_like_mut) else { return };
            remove_key(inner, rest);
            if inner.is_empty() {
                table.remove(name);
            }
        }
    }
}

fn implicit_table() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

fn read_table(table: &dyn TableLike) -> Value {
    table.iter().map(|(name, item)| (name.to_owned(), read_item(item))).collect::<Map<_, _>>().into()
}

fn read_item(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => read_value(value),
        Item::Table(table) => read_table(table),
        Item::ArrayOfTables(tables) => tables.iter().map(|table| read_table(table)).collect::<Vec<_>>().into(),
    }
}

fn read_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => json!(text.value()),
        toml_edit::Value::Integer(number) => json!(number.value()),
        toml_edit::Value::Boolean(flag) => json!(flag.value()),
        // JSON has no infinity; a number that is written in words compares as its text.
        toml_edit::Value::Float(number) if !number.value().is_finite() => json!(number.value().to_string()),
        toml_edit::Value::Float(number) => json!(number.value()),
        toml_edit::Value::Datetime(time) => json!(time.value().to_string()),
        toml_edit::Value::Array(items) => items.iter().map(read_value).collect::<Vec<_>>().into(),
        toml_edit::Value::InlineTable(table) => read_table(table),
    }
}

fn write_item(value: &Value) -> Item {
    match value.as_object() {
        Some(table) if table.is_empty() => Item::Table(Table::new()),
        _ => Item::Value(write_value(value)),
    }
}

fn write_value(value: &Value) -> toml_edit::Value {
    match value {
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64().unwrap_or_default().into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(write_value).collect::<Array>().into(),
        Value::Object(table) => {
            table.iter().map(|(name, inner)| (name.as_str(), write_value(inner))).collect::<InlineTable>().into()
        }
        // TOML has no null, so no document contains one.
        Value::Null => String::new().into(),
    }
}

/// Returns the path of a value in a declaration that cannot be compared: a date, or a number that JSON cannot express.
pub(super) fn find_unsupported_value(document: &TomlDocument) -> Option<String> {
    find_in_table(document.0.as_table(), &mut Vec::new())
}

fn find_in_table(table: &dyn TableLike, path: &mut TomlKeyPath) -> Option<String> {
    table.iter().find_map(|(name, item)| {
        path.push(name.to_owned());
        let found = match item {
            Item::Value(value) => is_unsupported(value).then(|| format_key_path(path)),
            Item::Table(inner) => find_in_table(inner, path),
            Item::ArrayOfTables(tables) => tables.iter().find_map(|inner| find_in_table(inner, path)),
            Item::None => None,
        };
        path.pop();
        found
    })
}

fn is_unsupported(value: &toml_edit::Value) -> bool {
    match value {
        toml_edit::Value::Datetime(_) => true,
        toml_edit::Value::Float(number) => !number.value().is_finite(),
        toml_edit::Value::Array(items) => items.iter().any(is_unsupported),
        toml_edit::Value::InlineTable(table) => table.iter().any(|(_, inner)| is_unsupported(inner)),
        _ => false,
    }
}
