//! The undo of a command whose run did not prove it: its check says only whether the whole change is there.

use super::command;
use crate::model::{UndoDeclaration, Value};
use crate::resource::shared::support::quote_word;
use serde_json::json;

/// Returns a removal that runs `remove` once, whatever `check` says, and notes that in `mark`. `None` if the
/// command declares by itself what is left.
pub(in crate::resource) fn declare_removal_of_rest(fields: &Value, mark: &str) -> Option<UndoDeclaration> {
    let remove = fields["remove"].as_str().filter(|_| fields.get("removed").is_none())?;
    let mark = quote_word(mark);
    let mut rest = json!({
        "check": "false",
        "remove": format!("sh -c {} && : >{mark}", quote_word(remove)),
        "removed": format!("[ -e {mark} ]"),
    });
    for name in ["cwd", "env", "timeout", "check_timeout"] {
        if let Some(value) = fields.get(name) {
            rest[name] = value.clone();
        }
    }
    Some(UndoDeclaration::absent(command::KIND.name, rest))
}

/// Returns why such a removal is not possible: another user cannot write into the journal.
pub(in crate::resource) fn find_unproven_refusal(fields: &Value) -> Option<&'static str> {
    let runs_as_root = fields.get("user").is_none() || fields.get("removed").is_some();
    (!runs_as_root).then_some(
        "the run did not prove the command: then only one of root, or one that declares `removed`, can be undone",
    )
}
