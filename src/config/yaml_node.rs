//! Values of YAML documents with their positions.

use crate::diag::Span;

impl YamlNode {
    /// Returns the value of a key, if this is a map that contains it.
    pub fn get(&self, name: &str) -> Option<&YamlNode> {
        let YamlData::Map(entries) = &self.data else { return None };
        entries.iter().find(|(key, _)| key.text == name).map(|(_, node)| node)
    }
}

/// A YAML tree with places. Scalars keep their text as typed.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlNode {
    /// The place of the value in its file.
    pub span: Span,
    /// The value itself.
    pub data: YamlData,
}

/// The value of a node. Numbers and booleans stay text until a field's type is known.
#[derive(Clone, Debug, PartialEq)]
pub enum YamlData {
    /// `null`, `~` or no value.
    Null,
    /// A plain scalar keeps its text (`560.10`). `quoted` is true for quoted and block scalars.
    Scalar {
        /// The content without quotes; of a plain scalar exactly as typed.
        text: String,
        /// Whether it was quoted, a block scalar or tagged, so that it is text even if it looks like a number.
        quoted: bool,
    },
    /// The items of a list, in order.
    Seq(Vec<YamlNode>),
    /// Keys with their places, in order. The parser rejects duplicates.
    Map(Vec<(YamlKey, YamlNode)>),
    /// A value that is not known yet. Only rendering creates it, never the parser.
    Unknown(super::PendingInput),
}

/// A key of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlKey {
    /// The key as text, without quotes.
    pub text: String,
    /// The place of the key in its file.
    pub span: Span,
}

/// What to do about a file of Kubernetes objects where forge reads a file of its own.
pub(super) const OBJECT_FILE_HINT: &str = "every YAML file directly in a folder of recipes is read as a recipe: move this one \
                                           into a subfolder, such as `recipes/files`, and adapt `file` of the manifest";

/// Returns the key by which a value is an object of Kubernetes, if it is one.
pub(super) fn find_object_key(root: &YamlNode) -> Option<&YamlKey> {
    let YamlData::Map(entries) = &root.data else { return None };
    let find = |name: &str| entries.iter().map(|(key, _)| key).find(|key| key.text == name);
    find("apiVersion").filter(|_| find("kind").is_some())
}

/// Returns the places of all texts in a value.
pub(super) fn list_scalars(node: &YamlNode) -> Vec<Span> {
    match &node.data {
        YamlData::Scalar { .. } => vec![node.span],
        YamlData::Seq(items) => items.iter().flat_map(list_scalars).collect(),
        YamlData::Map(entries) => entries.iter().flat_map(|(_, value)| list_scalars(value)).collect(),
        YamlData::Null | YamlData::Unknown(_) => Vec::new(),
    }
}
