//! Searches a text for all forms of all secrets at once: a run may have thousands of forms, and hosts print megabytes.

use aho_corasick::AhoCorasick;
use secrecy::{ExposeSecret, SecretString};
use std::ops::Range;
use std::sync::OnceLock;

/// Replaces a text that could not be searched.
const UNSEARCHED: &str = "(hidden: too many secrets to search for)";

/// The forms of secrets, each with the name of its secret.
#[derive(Clone, Default)]
pub(super) struct SecretForms {
    forms: Vec<(SecretString, String)>,
    /// Built by the first search after a change; `None` if the forms are too many.
    searcher: OnceLock<Option<AhoCorasick>>,
}

impl SecretForms {
    /// Adds the forms of a secret.
    pub fn add_forms(&mut self, name: &str, forms: Vec<SecretString>) {
        self.forms.extend(forms.into_iter().map(|form| (form, name.to_owned())));
        self.searcher = OnceLock::new();
    }

    /// Removes the forms of a secret.
    pub fn remove_forms(&mut self, name: &str) {
        self.forms.retain(|(_, of)| of != name);
        self.searcher = OnceLock::new();
    }

    /// Returns `text` with all forms replaced by `(secret NAME)`. Forms that overlap are replaced together, by the name
    /// of the longest: of none of them a part remains.
    pub fn replace_forms(&self, text: &str) -> String {
        if self.forms.is_empty() {
            return text.to_owned();
        }
        let Some(searcher) = self.searcher() else { return UNSEARCHED.to_owned() };
        let mut matches: Vec<(Range<usize>, usize)> =
            searcher.find_overlapping_iter(text).map(|found| (found.range(), found.pattern().as_usize())).collect();
        matches.sort_by_key(|(range, _)| range.start);
        let (mut out, mut shown) = (String::with_capacity(text.len()), 0);
        let mut matches = matches.into_iter().peekable();
        while let Some((mut range, mut longest)) = matches.next() {
            let mut length = range.len();
            while let Some((next, form)) = matches.next_if(|(next, _)| next.start < range.end) {
                if next.len() > length {
                    (length, longest) = (next.len(), form);
                }
                range.end = range.end.max(next.end);
            }
            out.push_str(&text[shown..range.start]);
            out.push_str(&format!("(secret {})", self.forms[longest].1));
            shown = range.end;
        }
        out.push_str(&text[shown..]);
        out
    }

    /// Reports whether `text` contains a form.
    pub fn occur_in(&self, text: &str) -> bool {
        !self.forms.is_empty() && self.searcher().is_none_or(|searcher| searcher.is_match(text))
    }

    fn searcher(&self) -> Option<&AhoCorasick> {
        let forms = || self.forms.iter().map(|(form, _)| form.expose_secret());
        self.searcher.get_or_init(|| AhoCorasick::new(forms()).ok()).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(of: &[(&str, &[&str])]) -> SecretForms {
        let mut all = SecretForms::default();
        of.iter().for_each(|(name, forms)| {
            all.add_forms(name, forms.iter().map(|form| SecretString::from((*form).to_owned())).collect());
        });
        all
    }

    #[test]
    fn forms_are_replaced_wherever_they_are() {
        let all = forms(&[("a", &["hunter2", "hunt"]), ("b", &["zwölf€"])]);
        for (text, expected) in [
            ("", ""),
            ("abc", "abc"),
            ("hunter2", "(secret a)"),
            ("x hunter2hunter2 y", "x (secret a)(secret a) y"),
            ("huntsman", "(secret a)sman"),
            ("ü zwölf€ zwölf", "ü (secret b) zwölf"),
        ] {
            assert_eq!(all.replace_forms(text), expected);
            assert_eq!(all.occur_in(text), text != expected, "{text}");
        }
        assert_eq!(SecretForms::default().replace_forms("abcd"), "abcd");
    }

    /// A replacement one after the other would leave the rest of the second.
    #[test]
    fn overlapping_forms_leave_nothing() {
        let all = forms(&[("a", &["abcdef"]), ("b", &["cdefghij"]), ("c", &["ijkl"])]);
        assert_eq!(all.replace_forms("-abcdefghijkl-"), "-(secret b)-");
        assert_eq!(all.replace_forms("abcdefijkl"), "(secret a)(secret c)");
    }

    #[test]
    fn removed_secret_is_not_replaced() {
        let mut all = forms(&[("a", &["hunter2"]), ("b", &["hunter22"])]);
        all.remove_forms("b");
        assert_eq!(all.replace_forms("hunter22"), "(secret a)2");
    }
}
