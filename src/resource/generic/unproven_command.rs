//! The undo of a command whose run did not prove it: its check says only whether the whole change was made.

use super::command;
use crate::model::UndoDeclaration;
use crate::script::quote_word;
use serde_json::json;

/// Reports whether a declaration undoes a command.
fn is_removal(declared: &UndoDeclaration) -> bool {
    declared.kind == command::KIND.name && declared.absent
}

/// Returns a removal that runs `remove` once, whatever `check` says, and notes that in the file `mark`. `None` for other
/// declarations, and for a command that declares `removed`.
pub fn declare_removal_of_rest(declared: &UndoDeclaration, mark: &str) -> Option<UndoDeclaration> {
    let fields = Some(&declared.fields).filter(|fields| is_removal(declared) && fields.get("removed").is_none())?;
    let remove = fields["remove"].as_str()?;
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

/// Returns why a command whose run did not prove it cannot be undone: another user cannot write into the journal. `None`
/// if it can.
pub fn find_unproven_refusal(declared: &UndoDeclaration) -> Option<&'static str> {
    let fields = &declared.fields;
    let runs_as_root = fields.get("user").is_none() || fields.get("removed").is_some();
    (is_removal(declared) && !runs_as_root).then_some(
        "the run did not prove the command: then only one of root, or one that declares `removed`, can be undone",
    )
}
