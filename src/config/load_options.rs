//! Options of loading a project.

/// What a load may do in addition to reading files of the inventory's tree.
#[derive(Clone, Copy)]
pub struct LoadOptions<'a> {
    /// Whether an inventory may run programs on the controller (`--trust`).
    pub trust: bool,
    /// Built-in recipes: name and text. A recipe of the inventory overrides the built-in recipe of the same name.
    pub embedded: &'a [(&'a str, &'a str)],
    /// Looks up an environment variable, for secrets.
    pub env: &'a dyn Fn(&str) -> Option<String>,
}
