//! Files of several YAML documents, as manifests of a cluster are kept.

use super::{scalar, yaml};
use crate::diag::{Code, Diag, FileId, Span};
use crate::model::Value;

/// Returns the documents of `text`, which lies at `path`, as a list; empty ones are left out. What is wrong is told at
/// `span`, with its line.
pub(super) fn read(path: &str, text: &str, span: Span) -> Result<Value, Box<Diag>> {
    let mut documents = Vec::new();
    for (line, text) in parts(text) {
        let mut diags = Vec::new();
        let node = yaml::parse(FileId(0), &text, &mut diags);
        if let Some(diag) = diags.first() {
            let before = diag.span.and_then(|span| text.get(..span.start as usize)).unwrap_or_default();
            let at = line + before.matches('\n').count();
            let told = Diag::error(Code::BadValue, diag.message.clone()).at(span).note(format!("in `{path}:{at}`"));
            return Err(Box::new(told));
        }
        documents.extend(node.as_ref().map(scalar::value).filter(|value| !value.is_null()));
    }
    Ok(Value::Array(documents))
}

/// Returns each document with its first line, counted from 1. A marker is one wherever a line begins with it.
fn parts(text: &str) -> Vec<(usize, String)> {
    let mut parts = vec![(1, String::new())];
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let rest = line.strip_prefix("---").or(line.strip_prefix("..."));
        match rest.filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\n', '\r'])) {
            // What stands behind the marker belongs to what follows.
            Some(rest) => parts.push((at + 1, format!("{}\n", rest.trim_end_matches(['\n', '\r'])))),
            None => parts.last_mut().into_iter().for_each(|(_, part)| part.push_str(line)),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SPAN: Span = Span { file: FileId(0), start: 0, end: 0 };

    #[test]
    fn each_document_is_a_value() {
        let text = "# a comment\n---\na: 1\nb: |\n  ---x\n--- # another\n- x\n---\n...\n";
        let read = read("x.yaml", text, SPAN).unwrap();
        assert_eq!(read, json!([{ "a": 1, "b": "---x\n" }, ["x"]]));
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        let diag = read("x.yaml", "a: 1\n---\nb: 1\nb: 2\n", SPAN).unwrap_err();
        assert_eq!(diag.notes, ["in `x.yaml:4`"]);
    }
}
