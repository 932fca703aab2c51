//! `kubernetes:` as written: which API belongs to the hosts.

use crate::config::Node;
use crate::config::cx::Cx;
use crate::config::table::{self, Table};
use crate::diag::{Code, Diag};
use crate::kube::Access;
use camino::Utf8PathBuf;

/// Keys of `kubernetes`.
pub(in crate::config) const KEYS: [&str; 2] = ["kubeconfig", "context"];

/// Both keys are needed: what is not said would be taken from whoever runs forge.
pub(super) fn read(node: &Node, cx: &mut Cx<'_>) -> Option<Access> {
    let table = Table::open(node, "`kubernetes`", &KEYS, &mut cx.diags)?;
    let kubeconfig = table.require("kubeconfig", &mut cx.diags).and_then(|node| file(node, cx));
    let context = table.require("context", &mut cx.diags).and_then(|node| context(node, cx));
    Some(Access { kubeconfig: kubeconfig?, context: context?, trusted: cx.options.trust })
}

fn file(node: &Node, cx: &mut Cx<'_>) -> Option<Utf8PathBuf> {
    let text = table::text(node, "kubeconfig", &mut cx.diags)?;
    let home = text.strip_prefix("~/").map(|rest| (rest, (cx.options.env)("HOME").unwrap_or_default()));
    let problem = match &home {
        _ if text.is_empty() || text.chars().any(char::is_control) => "`kubeconfig` is not a path",
        Some((_, home)) if home.is_empty() => "`kubeconfig` begins with `~`, and `HOME` is not set",
        None if text.starts_with('~') => "`kubeconfig` is in the home of somebody else",
        _ => {
            let path = home.map_or_else(|| cx.root.join(&text), |(rest, home)| Utf8PathBuf::from(home).join(rest));
            return Some(path);
        }
    };
    cx.push(Diag::error(Code::BadConnect, problem).at(node.span).hint("write it like `~/.kube/config`"));
    None
}

fn context(node: &Node, cx: &mut Cx<'_>) -> Option<String> {
    let name = table::text(node, "context", &mut cx.diags)?;
    if name.is_empty() {
        let diag = Diag::error(Code::BadConnect, "`context` names nothing").at(node.span);
        cx.push(diag.hint("name a context of the kubeconfig; its current one is not taken"));
        return None;
    }
    Some(name)
}
