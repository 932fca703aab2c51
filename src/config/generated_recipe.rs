//! Recipes that forge writes itself, for an undo. They take the place of everything that an inventory applies.

use crate::model::HostName;
use camino::Utf8PathBuf;

/// A recipe that forge wrote, and its hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratedRecipe {
    /// Its name.
    pub name: String,
    /// Its YAML.
    pub text: String,
    /// The hosts that it is applied to.
    pub hosts: Vec<HostName>,
}

const FOLDER: &str = "generated/";

impl GeneratedRecipe {
    /// Returns the path that messages show.
    pub(super) fn shown_path(&self) -> Utf8PathBuf {
        Utf8PathBuf::from(format!("{FOLDER}{}.yaml", self.name))
    }

    /// Reports whether messages show a recipe that forge wrote by this path.
    pub fn is_shown_path(path: &str) -> bool {
        path.starts_with(FOLDER)
    }
}

/// Returns a text that a template renders as `text`.
pub fn escape_template(text: &str) -> String {
    // Without a template there is nothing to render, and the text stays as it is.
    if !["{{", "{%", "{#"].iter().any(|open| text.contains(open)) {
        return text.to_owned();
    }
    let mut escaped = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, after) = rest.split_at(at);
        escaped.push_str(before);
        escaped.push_str("{{ '{' }}");
        rest = &after[1..];
    }
    escaped + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_text_renders_as_itself() {
        let environment = minijinja::Environment::new();
        for text in ["plain", "{ a: {b: c} }", "{{ host.name }} {% raw %} {# x #} }}", "{{{"] {
            assert_eq!(environment.render_str(&escape_template(text), ()).unwrap(), text);
        }
    }
}
