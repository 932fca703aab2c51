//! Reads `supports`: the distributions on which a recipe works. It becomes the first rule of the recipe.

use crate::config::load_context::LoadContext;
use crate::config::yaml_table::{self, YamlTable};
use crate::config::{RecipeRule, SourceExpr, YamlKey, YamlNode};
use crate::diag::{Diag, DiagCode, Span, find_slip};
use crate::model::BlockClass;

/// `ID` of common distributions, for which a similar id is a typing error.
const COMMON_IDS: [&str; 20] = [
    "almalinux",
    "amzn",
    "arch",
    "azurelinux",
    "centos",
    "debian",
    "devuan",
    "fedora",
    "linuxmint",
    "nixos",
    "ol",
    "opensuse-leap",
    "opensuse-tumbleweed",
    "pop",
    "raspbian",
    "rhel",
    "rocky",
    "sled",
    "sles",
    "ubuntu",
];

/// A distribution and its releases; none means every release.
struct SupportedSystem {
    id: String,
    releases: Vec<String>,
}

/// Parses `{ debian: ["12"], ubuntu: ["22.04", "24.04"], rhel: ["9"] }`. Without the key a recipe supports every
/// distribution.
pub(super) fn read_supports(table: &YamlTable<'_>, cx: &mut LoadContext<'_>) -> Option<RecipeRule> {
    let node = table.get("supports")?;
    let entries = yaml_table::expect_entries(Some(node), "supports", &mut cx.diags);
    let systems: Vec<SupportedSystem> = entries.iter().filter_map(|(key, node)| read_system(key, node, cx)).collect();
    (!systems.is_empty()).then(|| build_rule(&systems, node.span))
}

fn read_system(key: &YamlKey, node: &YamlNode, cx: &mut LoadContext<'_>) -> Option<SupportedSystem> {
    if key.text.is_empty() || !key.text.bytes().all(|byte| byte.is_ascii_lowercase() || b"0123456789_-".contains(&byte))
    {
        let diag = Diag::error(DiagCode::BadValue, format!("`{}` is not the id of a distribution", key.text));
        cx.push_diag(diag.with_span(key.span).hint("use `ID` of `/etc/os-release`: `{ ubuntu: [\"22.04\"] }`"));
        return None;
    }
    // Any other id is valid: the list is not complete.
    if let Some(near) = find_slip(&key.text, COMMON_IDS).filter(|_| !COMMON_IDS.contains(&key.text.as_str())) {
        let diag = Diag::error(DiagCode::BadValue, format!("`{}` is not the id of a distribution", key.text));
        cx.push_diag(diag.with_span(key.span).hint(format!("did you mean `{near}`?")));
        return None;
    }
    let mut releases = Vec::new();
    for (text, span) in read_releases(node, cx) {
        match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            true => releases.push(text),
            false => {
                let diag = Diag::error(DiagCode::BadValue, format!("`{text}` is not a release")).with_span(span);
                cx.push_diag(
                    diag.hint("use `VERSION_ID` of `/etc/os-release`, or its first part: `\"9\"` is every 9.x"),
                );
            }
        }
    }
    Some(SupportedSystem { id: key.text.clone(), releases })
}

fn read_releases(node: &YamlNode, cx: &mut LoadContext<'_>) -> Vec<(String, Span)> {
    let crate::config::YamlData::Seq(items) = &node.data else {
        let diag = Diag::error(DiagCode::WrongType, "`supports` requires a list of releases").with_span(node.span);
        cx.push_diag(diag.hint("an empty list is every release"));
        return Vec::new();
    };
    items
        .iter()
        .filter_map(|item| Some((yaml_table::expect_text(item, "supports", &mut cx.diags)?, item.span)))
        .collect()
}

fn build_rule(systems: &[SupportedSystem], span: Span) -> RecipeRule {
    let conditions: Vec<String> = systems.iter().map(SupportedSystem::condition).collect();
    let names: Vec<String> = systems.iter().map(SupportedSystem::describe).collect();
    RecipeRule {
        of_cluster: false,
        when: None,
        require: SourceExpr { source: conditions.join(" or "), span },
        otherwise: format!("the recipe does not support this host's distribution; it supports {}", names.join(", ")),
        shows: None,
        class: Some(BlockClass::Host),
        accept: None,
        span,
    }
}

impl SupportedSystem {
    /// Returns the expression that is true on such a host: by its id, or by the ids from which it derives, as Rocky
    /// derives from RHEL.
    fn condition(&self) -> String {
        let id = format!("(facts.os.id == \"{0}\" or \"{0}\" in facts.os.id_like)", self.id);
        // `9` also means 9.4, and `22.04` does not mean 22.041.
        let release = |release: &String| format!("(facts.os.version_id ~ \".\") is startingwith(\"{release}.\")");
        let releases: Vec<String> = self.releases.iter().map(release).collect();
        match releases.is_empty() {
            true => id,
            false => format!("({id} and ({}))", releases.join(" or ")),
        }
    }

    fn describe(&self) -> String {
        match self.releases.is_empty() {
            true => self.id.clone(),
            false => format!("{} {}", self.id, self.releases.join(" and ")),
        }
    }
}
