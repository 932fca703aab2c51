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
    pub span: Span,
    pub data: YamlData,
}

#[derive(Clone, Debug, PartialEq)]
pub enum YamlData {
    Null,
    /// A plain scalar keeps its text (`560.10`). `quoted` is true for quoted and block scalars.
    Scalar {
        text: String,
        quoted: bool,
    },
    Seq(Vec<YamlNode>),
    /// Keys with their places, in order. The parser rejects duplicates.
    Map(Vec<(YamlKey, YamlNode)>),
    /// A value that is not known yet. Only rendering creates it, never the parser.
    Unknown(super::PendingInput),
}

#[derive(Clone, Debug, PartialEq)]
pub struct YamlKey {
    pub text: String,
    pub span: Span,
}
