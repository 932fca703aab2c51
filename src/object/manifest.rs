//! Manifests: the output of helm as objects.

use super::ChartHook;
use crate::model::Value;

/// One object of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ManifestObject {
    /// The original text. It is applied unchanged, so that different YAML parsers cannot matter.
    pub text: String,
    pub value: Value,
}

/// The annotation that makes an object a hook.
const HOOK_ANNOTATION: &str = "helm.sh/hook";

impl ManifestObject {
    fn text_at(&self, pointer: &str) -> &str {
        self.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn api_version(&self) -> &str {
        self.text_at("/apiVersion")
    }

    pub fn kind(&self) -> &str {
        self.text_at("/kind")
    }

    pub fn name(&self) -> &str {
        self.text_at("/metadata/name")
    }

    /// Returns the object's own namespace, if it has one.
    pub fn namespace(&self) -> Option<&str> {
        Some(self.text_at("/metadata/namespace")).filter(|namespace| !namespace.is_empty())
    }

    /// Returns the displayed name: `Deployment tiny`, with the namespace if that is not `home`.
    pub fn display_title(&self, home: &str) -> String {
        match self.namespace().filter(|namespace| *namespace != home) {
            Some(namespace) => format!("{} {namespace}/{}", self.kind(), self.name()),
            None => format!("{} {}", self.kind(), self.name()),
        }
    }

    /// Returns the identity of the object in two manifests: another API version is still the same object.
    pub fn identity_key(&self, home: &str) -> (String, String, String, String) {
        let group = self.api_version().split_once('/').map_or("", |(group, _)| group);
        let namespace = self.namespace().unwrap_or(home);
        (group.to_owned(), self.kind().to_owned(), namespace.to_owned(), self.name().to_owned())
    }

    fn hook_events(&self) -> Option<Vec<String>> {
        let annotations = self.value.pointer("/metadata/annotations")?;
        let events = annotations.get(HOOK_ANNOTATION)?.as_str()?;
        Some(events.split(',').map(|event| event.trim().to_owned()).collect())
    }

    pub fn is_hook(&self) -> bool {
        self.hook_events().is_some()
    }

    /// Returns the hook; `None` for an ordinary object.
    pub fn to_hook(&self, home: &str) -> Option<ChartHook> {
        Some(ChartHook { object: self.display_title(home), events: self.hook_events()? })
    }

    /// Returns the API versions that a CRD adds: `a.b/v1`, `a.b/v1/Kind`.
    pub fn defined_api_versions(&self) -> Vec<String> {
        let (group, kind) = (self.text_at("/spec/group"), self.text_at("/spec/names/kind"));
        let versions = self.value.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
        let names = versions.filter_map(|version| version.get("name")?.as_str());
        names.flat_map(|version| [format!("{group}/{version}"), format!("{group}/{version}/{kind}")]).collect()
    }
}

/// Parses a manifest. Empty documents are left out; lists are split into their items.
///
/// # Errors
/// A document is not an object of an API: the message, as a lowercase fragment.
pub(crate) fn parse_manifest(text: &str) -> Result<Vec<ManifestObject>, String> {
    let documents = split_documents(text).into_iter().map(|text| {
        let value = super::parse_document(&text).map_err(|error| format!("invalid manifest: {error}"))?;
        Ok(ManifestObject { text, value })
    });
    let objects = documents.collect::<Result<Vec<_>, String>>()?;
    let objects: Vec<ManifestObject> =
        objects.into_iter().filter(|object| !object.value.is_null()).flat_map(expand_list).collect();
    match objects.iter().find(|object| object.kind().is_empty() || object.name().is_empty()) {
        Some(object) => {
            let line = object.text.lines().next().unwrap_or_default().to_owned();
            Err(format!("the manifest has a document that is not an object: `{line}`"))
        }
        None => Ok(objects),
    }
}

/// Splits at lines of three dashes. Those in text blocks are indented, so they do not match.
fn split_documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        match (line.trim_end() == "---", documents.last_mut()) {
            (false, Some(open)) => {
                open.push_str(line);
                open.push('\n');
            }
            _ => documents.push(String::new()),
        }
    }
    documents.retain(|text| text.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#')));
    documents
}

/// Splits a `List` into its items.
fn expand_list(object: ManifestObject) -> Vec<ManifestObject> {
    let items = match object.kind().ends_with("List") {
        true => object.value.get("items").and_then(Value::as_array).cloned(),
        false => None,
    };
    match items {
        Some(items) => items.into_iter().map(|value| ManifestObject { text: value.to_string(), value }).collect(),
        None => vec![object],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_is_parsed_into_objects() {
        let text = "---\n# Source: a/b.yaml\n\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: { name: a }\ndata:\n  x: |\n    ---\n    y\n\
                    ---\napiVersion: v1\nkind: List\nitems: [{ apiVersion: v1, kind: Service, metadata: { name: s, namespace: other } }]\n";
        let found = parse_manifest(text).unwrap();
        let titles: Vec<String> = found.iter().map(|object| object.display_title("ns")).collect();
        assert_eq!(titles, ["ConfigMap a", "Service other/s"]);
        assert_eq!(found[0].value["data"]["x"], "---\ny\n");
        assert_eq!(parse_manifest("\n---\n# nothing\n").unwrap(), []);
    }

    #[test]
    fn document_that_is_not_an_object_is_an_error() {
        let message = "the manifest has a document that is not an object: `just text`";
        assert_eq!(parse_manifest("just text\n").unwrap_err(), message);
        assert!(parse_manifest("a: [\n").unwrap_err().starts_with("invalid manifest: "));
    }

    #[test]
    fn hook_lists_its_events() {
        let text = "apiVersion: batch/v1\nkind: Job\nmetadata: { name: h, annotations: { helm.sh/hook: 'pre-install, pre-upgrade' } }\n";
        let hook = parse_manifest(text).unwrap()[0].to_hook("ns").unwrap();
        assert_eq!((hook.object.as_str(), hook.events.join(" ").as_str()), ("Job h", "pre-install pre-upgrade"));
    }
}
