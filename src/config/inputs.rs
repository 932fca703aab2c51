//! Digests of the files that a project was read from: a saved plan is bound to them. Secret files are not included,
//! because the digest of a short secret reveals it.

use super::Project;
use super::builtin_data::BUILTIN_PATH;
use super::lock_file::lock_file_path;
use crate::model::Value;
use base64::Engine as _;
use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// A file that a project was read from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InputFile {
    /// Path relative to the inventory's folder; `<built in>/…` for built-in recipes.
    pub path: String,
    /// Digest in hexadecimal.
    pub sha256: String,
}

impl Project {
    /// Returns every file that the project was read from, sorted by path: the inventory, recipes, templates, source
    /// files and the lock file.
    pub fn list_input_files(&self) -> Vec<InputFile> {
        let folder = self.inventory.parent().unwrap_or(Utf8Path::new(""));
        let mut files: BTreeMap<String, String> = BTreeMap::new();
        for (_, path, text) in self.sources.files() {
            let path = if path.starts_with(BUILTIN_PATH) { path } else { path.strip_prefix(folder).unwrap_or(path) };
            files.insert(path.to_string(), hash_sha256(text.as_bytes()));
        }
        for (path, content) in self.files.list_contents() {
            let path = normalize_path(&self.inventory_root().join(path));
            files.insert(path.strip_prefix(self.inventory_root()).unwrap_or(&path).to_string(), hash_content(&content));
        }
        files.extend(self.digests.to_lock_text().map(|text| {
            let name = lock_file_path(self.inventory.file_name().unwrap_or_default().into());
            (name.into_string(), hash_sha256(text.as_bytes()))
        }));
        files.into_iter().map(|(path, sha256)| InputFile { path, sha256 }).collect()
    }
}

fn hash_sha256(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(64);
    crate::model::push_hex(&mut hex, &Sha256::digest(bytes));
    hex
}

/// Returns the digest of a file's content. Content that is not UTF-8 text is stored as base64.
fn hash_content(content: &Value) -> String {
    let encoded = content.get("base64").and_then(Value::as_str);
    let bytes = encoded.and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok());
    bytes.map_or_else(|| hash_sha256(content.as_str().unwrap_or_default().as_bytes()), |bytes| hash_sha256(&bytes))
}

/// Removes `..` and `.` from a path lexically.
fn normalize_path(path: &Utf8Path) -> Utf8PathBuf {
    let mut out = Utf8PathBuf::new();
    for part in path.components() {
        match part {
            Utf8Component::ParentDir => {
                out.pop();
            }
            Utf8Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// Returns the differences between the files that a saved plan was made from and the current files, as lowercase
/// fragments.
pub fn describe_changed_inputs(then: &[InputFile], now: &[InputFile]) -> Vec<String> {
    let digest = |list: &[InputFile], path: &str| list.iter().find(|f| f.path == path).map(|f| f.sha256.clone());
    let before = then.iter().filter_map(|file| match digest(now, &file.path) {
        Some(sha256) if sha256 == file.sha256 => None,
        Some(_) => Some(format!("`{}` changed", file.path)),
        None => Some(format!("`{}` is no longer read", file.path)),
    });
    let new = now.iter().filter(|file| digest(then, &file.path).is_none());
    before.chain(new.map(|file| format!("`{}` was not read before", file.path))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_input_files(list: &[(&str, &str)]) -> Vec<InputFile> {
        list.iter().map(|(path, digest)| InputFile { path: (*path).into(), sha256: (*digest).into() }).collect()
    }

    #[test]
    fn each_changed_input_is_named() {
        let then = build_input_files(&[("a.yaml", "1"), ("recipes/r.yaml", "2"), ("recipes/s.yaml", "3")]);
        assert!(describe_changed_inputs(&then, &then).is_empty());
        let now = build_input_files(&[("a.yaml", "1"), ("recipes/r.yaml", "9"), ("recipes/t.yaml", "3")]);
        assert_eq!(
            describe_changed_inputs(&then, &now),
            ["`recipes/r.yaml` changed", "`recipes/s.yaml` is no longer read", "`recipes/t.yaml` was not read before"]
        );
    }

    #[test]
    fn text_and_base64_content_have_the_digest_of_the_file() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hash_content(&Value::from("")), empty);
        assert_eq!(hash_content(&serde_json::json!({ "base64": "" })), empty);
        assert_eq!(normalize_path("/a/b/../c/./d".into()), "/a/c/d");
    }
}
