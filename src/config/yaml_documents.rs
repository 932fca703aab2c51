//! Reads files with several YAML documents, such as Kubernetes manifests.

use super::{scalar, yaml};
use crate::diag::{Diag, DiagCode, FileId, Span};
use crate::model::Value;

/// Returns the documents of `text`, the content of `path`, as a list without empty documents. Errors are reported at
/// `span`, with the line in the file.
pub(super) fn read_documents(path: &str, text: &str, span: Span) -> Result<Value, Box<Diag>> {
    let mut documents = Vec::new();
    for (line, text) in split_documents(text) {
        let mut diags = Vec::new();
        let node = yaml::parse(FileId(0), &text, &mut diags);
        if let Some(diag) = diags.first() {
            let before = diag.span.and_then(|span| text.get(..span.start as usize)).unwrap_or_default();
            let at = line + before.matches('\n').count();
            let told =
                Diag::error(DiagCode::BadValue, diag.message.clone()).with_span(span).note(format!("in `{path}:{at}`"));
            return Err(Box::new(told));
        }
        documents.extend(node.as_ref().map(scalar::node_to_value).filter(|value| !value.is_null()));
    }
    Ok(Value::Array(documents))
}

/// Returns each document with its first line, counted from 1. Every line that starts with a marker ends a document.
fn split_documents(text: &str) -> Vec<(usize, String)> {
    let mut parts = vec![(1, String::new())];
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let rest = line.strip_prefix("---").or(line.strip_prefix("..."));
        match rest.filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\n', '\r'])) {
            // Text after the marker belongs to the next document.
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
    fn each_document_becomes_a_value() {
        let text = "# a comment\n---\na: 1\nb: |\n  ---x\n--- # another\n- x\n---\n...\n";
        let read = read_documents("x.yaml", text, SPAN).unwrap();
        assert_eq!(read, json!([{ "a": 1, "b": "---x\n" }, ["x"]]));
    }

    #[test]
    fn parse_error_names_its_line() {
        let diag = read_documents("x.yaml", "a: 1\n---\nb: 1\nb: 2\n", SPAN).unwrap_err();
        assert_eq!(diag.notes, ["in `x.yaml:4`"]);
    }
}
