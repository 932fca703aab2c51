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
/// The annotation that makes an uninstall keep an object, if it is `keep`.
const POLICY_ANNOTATION: &str = "helm.sh/resource-policy";
/// Annotations with the name and the namespace of the release that owns an object.
const OWNER_ANNOTATIONS: [&str; 2] = ["meta.helm.sh/release-namespace", "meta.helm.sh/release-name"];

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

    fn annotation(&self, name: &str) -> Option<&str> {
        find_annotation(&self.value, name)
    }

    /// Reports whether an uninstall, or an upgrade that no longer has the object, keeps it.
    pub fn is_kept(&self) -> bool {
        self.annotation(POLICY_ANNOTATION).is_some_and(|policy| policy.trim().eq_ignore_ascii_case("keep"))
    }

    /// Reports whether the object is a CRD: its deletion deletes all objects of its kind.
    pub fn is_definition(&self) -> bool {
        self.kind() == "CustomResourceDefinition"
    }

    fn hook_events(&self) -> Option<Vec<String>> {
        let events = self.annotation(HOOK_ANNOTATION)?;
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

fn find_annotation<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

/// Returns the release that owns a live object, as helm decides it: `NAMESPACE/NAME`.
pub(crate) fn find_owning_release(live: &Value) -> Option<String> {
    let managed = live.pointer("/metadata/labels").and_then(|labels| labels.get("app.kubernetes.io/managed-by"));
    let [namespace, name] = OWNER_ANNOTATIONS.map(|key| find_annotation(live, key));
    (managed.and_then(Value::as_str) == Some("Helm")).then_some(format!("{}/{}", namespace?, name?))
}

/// Parses a manifest. Empty documents are left out; lists are split into their items.
///
/// # Errors
/// A document is not an object of an API: the message, as a lowercase fragment.
pub(crate) fn parse_manifest(text: &str) -> Result<Vec<ManifestObject>, String> {
    parse_documents(split_documents(text))
}

/// Parses the output of `helm template --include-crds`, and returns the objects from folders `crds`, by name.
///
/// # Errors
/// As [`parse_manifest`].
pub(crate) fn parse_definitions(text: &str) -> Result<Vec<ManifestObject>, String> {
    let mut definitions = parse_documents(split_rendered(text).0)?;
    definitions.sort_by(|one, other| one.name().cmp(other.name()));
    definitions.dedup_by(|one, other| one.name() == other.name());
    Ok(definitions)
}

/// Parses the output of `helm template --include-crds`, and returns the objects from other folders.
///
/// # Errors
/// As [`parse_manifest`].
pub(crate) fn parse_rendered(text: &str) -> Result<Vec<ManifestObject>, String> {
    parse_documents(split_rendered(text).1)
}

/// Splits the output of `helm template` into the documents from folders `crds`, and the others.
fn split_rendered(text: &str) -> (Vec<String>, Vec<String>) {
    let mut in_folder = false;
    split_documents(text).into_iter().partition(|document| {
        // Only the first document of a file names the file. It is empty if the file begins with dashes.
        in_folder = source_file(document).map_or(in_folder, is_definition_file);
        in_folder
    })
}

/// Returns the chart's file that helm prints a document from: `gpu-operator/charts/nfd/crds/api.yaml`. Later documents of a
/// file may begin with such a comment of their own, an address where they come from.
fn source_file(document: &str) -> Option<&str> {
    let file = document.lines().next()?.strip_prefix("# Source: ").map(str::trim)?;
    let (_, inner) = file.split_once('/')?;
    ["crds/", "templates/", "charts/"].iter().any(|folder| inner.starts_with(folder)).then_some(file)
}

/// Reports whether a file is in the folder `crds` of a chart or subchart; `templates/crds` is another folder.
fn is_definition_file(path: &str) -> bool {
    let mut inner = path.split_once('/').map_or("", |(_, inner)| inner);
    while let Some((_, file)) = inner.strip_prefix("charts/").and_then(|subchart| subchart.split_once('/')) {
        inner = file;
    }
    inner.starts_with("crds/")
}

fn parse_documents(documents: Vec<String>) -> Result<Vec<ManifestObject>, String> {
    let documents = documents.into_iter().filter(|text| !is_empty_document(text)).map(|text| {
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
    documents
}

fn is_empty_document(text: &str) -> bool {
    text.lines().all(|line| line.trim().is_empty() || line.starts_with('#'))
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
    fn definitions_are_the_objects_in_folders_of_that_name() {
        let object = |source: &str, name: &str| {
            let source = if source.is_empty() { String::new() } else { format!("# Source: {source}\n") };
            format!("---\n{source}apiVersion: v1\nkind: Thing\nmetadata: {{ name: {name} }}\n")
        };
        let text = [
            object("c/crds/two.yaml", "third"),
            object("", "other"),
            object("https://github.com/kubernetes-sigs/jobset", "commented"),
            object("c/charts/sub/charts/deep/crds/x.yaml", "kind"),
            object("c/charts/sub/crds/x.yaml", "kind"),
            object("c/templates/crds/kind.yaml", "template"),
            object("c/charts/crds/templates/kind.yaml", "subchart"),
            object("", "second"),
            // A file that begins with `---`, as those of gpu-operator.
            format!("---\n# Source: c/crds/dashes.yaml\n{}", object("", "dashes")),
            format!("---\n# Source: c/templates/dashes.yaml\n{}", object("", "dashes-template")),
        ];
        let found = parse_definitions(&text.concat()).unwrap();
        assert_eq!(
            found.iter().map(ManifestObject::name).collect::<Vec<_>>(),
            ["commented", "dashes", "kind", "other", "third"]
        );
        let found = parse_rendered(&text.concat()).unwrap();
        let names: Vec<&str> = found.iter().map(ManifestObject::name).collect();
        assert_eq!(names, ["template", "subchart", "second", "dashes-template"]);
    }

    #[test]
    fn document_that_is_not_an_object_is_an_error() {
        let message = "the manifest has a document that is not an object: `just text`";
        assert_eq!(parse_manifest("just text\n").unwrap_err(), message);
        assert!(parse_manifest("a: [\n").unwrap_err().starts_with("invalid manifest: "));
    }

    #[test]
    fn owner_is_read_as_helm_reads_it() {
        let live = |label: &str| {
            let annotations =
                serde_json::json!({ "meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "ns" });
            serde_json::json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": label }, "annotations": annotations } })
        };
        assert_eq!(find_owning_release(&live("Helm")).as_deref(), Some("ns/r"));
        assert_eq!(find_owning_release(&live("kustomize")), None);
        assert_eq!(find_owning_release(&serde_json::json!({ "metadata": {} })), None);
    }

    #[test]
    fn hook_lists_its_events() {
        let text = "apiVersion: batch/v1\nkind: Job\nmetadata: { name: h, annotations: { helm.sh/hook: 'pre-install, pre-upgrade' } }\n";
        let hook = parse_manifest(text).unwrap()[0].to_hook("ns").unwrap();
        assert_eq!((hook.object.as_str(), hook.events.join(" ").as_str()), ("Job h", "pre-install pre-upgrade"));
    }
}
