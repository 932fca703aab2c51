//! Checks that declared rules stay within the braces of their table. Rules that end the table are rejected before forge
//! contacts any host: a listing of the loaded rules does not show a command that flushed or deleted another table.

use crate::diag::Diag;
use crate::resource::shared::support::bad_value;

/// Rejects an unmatched closing brace, and `include`, which `nft` accepts anywhere. Tokenizes as `nft` does: `"…"` is a
/// string that may span lines and has no escapes, and `#` begins a comment.
pub(super) fn check_rules(rules: &str) -> Result<(), Diag> {
    let (mut depth, mut line, mut rest) = (0_usize, 1_usize, rules);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '#' => rest.find('\n').unwrap_or(rest.len()),
            // `nft` does not treat an unterminated quote as a string, so the rest counts.
            '"' => rest[1..].find('"').map_or(1, |end| end + 2),
            first if is_word_char(first) => rest.find(|c| !is_word_char(c)).unwrap_or(rest.len()),
            first => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        match token {
            "{" => depth += 1,
            "}" if depth == 0 => {
                return Err(rules_error(format!("line {line} of `rules` has an unmatched closing brace"))
                    .hint("`rules` is the content of one table, without its braces; use one step per table"));
            }
            "}" => depth -= 1,
            "include" => {
                return Err(rules_error(format!("line {line} of `rules` contains an `include`")).hint(
                    "copy the rules into the recipe: included files are not compared and may change other tables",
                ));
            }
            _ => {}
        }
        line += token.matches('\n').count();
        rest = after;
    }
    Ok(())
}

fn is_word_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/')
}

fn rules_error(message: String) -> Diag {
    bad_value(message).with_field("rules")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_message(rules: &str) -> Option<String> {
        let diag = check_rules(rules).err()?;
        assert_eq!(diag.field, Some("rules"));
        Some(diag.message)
    }

    #[test]
    fn unmatched_closing_brace_is_rejected() {
        let closes = |line: usize| Some(format!("line {line} of `rules` has an unmatched closing brace"));
        assert_eq!(check_message("}\nflush ruleset\ntable inet x {"), closes(1));
        assert_eq!(check_message("chain a {\n}\n}\ndelete table inet filter\ntable inet x {\n"), closes(3));
        assert_eq!(check_message("chain a { } } table ip nat {"), closes(1));
        assert_eq!(check_message("# {\n}"), closes(2), "a comment does not open a brace");
        assert_eq!(check_message("# it's \"\n}"), closes(2), "a comment does not open a string");
        assert_eq!(check_message("comment \"{\n\"\n}"), closes(3), "a string does not open a brace");
        assert_eq!(check_message("comment \"a\\\" } #\""), closes(1), "strings have no escapes");
        assert_eq!(check_message("a \" }"), closes(1), "an unterminated quote is not a string");
    }

    #[test]
    fn include_statement_is_rejected() {
        let included = |line: usize| Some(format!("line {line} of `rules` contains an `include`"));
        assert_eq!(check_message("include \"/etc/x.nft\""), included(1));
        assert_eq!(check_message("chain a {\n\tinclude\"/etc/x.nft\"\n}"), included(2));
        assert_eq!(check_message("a;include '/etc/x.nft'"), included(1));
    }

    #[test]
    fn rules_within_one_table_are_accepted() {
        for rules in [
            "",
            "set nodes { type ipv4_addr; elements = { 10.0.14.0/24 } }\nchain input {\n  ip saddr @nodes accept\n}",
            "chain a { iif lo accept comment \"} include {\" } # } include",
            "chain include-all { }\nset not_include { }",
            "chain \u{fc} { }",
        ] {
            assert_eq!(check_message(rules), None, "{rules}");
        }
    }
}
