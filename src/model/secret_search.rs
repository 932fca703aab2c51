//! Searches a text for all forms of all secrets at once: a run may have thousands of forms, and hosts print megabytes.
//!
//! The first bytes of every form are in an index, so that a text is read once, whatever the number of forms. The index
//! grows with each secret: exports arrive while a run prints.

use secrecy::{ExposeSecret, SecretString};
use std::collections::HashMap;
use std::ops::Range;

/// The bytes of a form that the index holds; no form is shorter.
const PREFIX: usize = 4;

/// The number of bits of the filter: few enough for the processor's cache.
const FILTER_BITS: usize = 1 << 16;

/// The forms of secrets, each with the name of its secret.
#[derive(Clone, Default)]
pub(super) struct SecretForms {
    by_prefix: HashMap<[u8; PREFIX], Vec<(SecretString, String)>>,
    /// One bit per hash of a prefix: most places of a text need no look-up.
    filter: Vec<u64>,
}

impl SecretForms {
    /// Adds the forms of a secret. Forms shorter than the prefix are left out.
    pub fn add_forms(&mut self, name: &str, forms: Vec<SecretString>) {
        self.filter.resize(FILTER_BITS / 64, 0);
        for form in forms {
            let Some(prefix) = form.expose_secret().as_bytes().first_chunk::<PREFIX>().copied() else { continue };
            self.set_bit(prefix);
            self.by_prefix.entry(prefix).or_default().push((form, name.to_owned()));
        }
    }

    /// Removes the forms of a secret.
    pub fn remove_forms(&mut self, name: &str) {
        self.by_prefix.values_mut().for_each(|forms| forms.retain(|(_, of)| of != name));
    }

    /// Returns `text` with all forms replaced by `(secret NAME)`. Forms that overlap are replaced together, by the name
    /// of the longest: of none of them a part remains.
    pub fn replace_forms(&self, text: &str) -> String {
        let mut matches = self.find_matches(text).peekable();
        if matches.peek().is_none() {
            return text.to_owned();
        }
        let (mut out, mut shown) = (String::with_capacity(text.len()), 0);
        while let Some((mut range, mut longest)) = matches.next() {
            let mut length = range.len();
            while let Some((next, name)) = matches.next_if(|(next, _)| next.start < range.end) {
                if next.len() > length {
                    (length, longest) = (next.len(), name);
                }
                range.end = range.end.max(next.end);
            }
            out.push_str(&text[shown..range.start]);
            out.push_str(&format!("(secret {longest})"));
            shown = range.end;
        }
        out.push_str(&text[shown..]);
        out
    }

    /// Reports whether `text` contains a form.
    pub fn occur_in(&self, text: &str) -> bool {
        self.find_matches(text).next().is_some()
    }

    /// Returns the longest match at each place of the text that has one, with the name of its secret.
    fn find_matches<'s>(&'s self, text: &'s str) -> impl Iterator<Item = (Range<usize>, &'s str)> {
        let bytes = text.as_bytes();
        let places = bytes.windows(PREFIX).enumerate().filter(|_| !self.filter.is_empty());
        places.filter_map(move |(start, window)| {
            let prefix = *window.first_chunk::<PREFIX>()?;
            let forms = self.has_bit(prefix).then(|| self.by_prefix.get(&prefix))??;
            let found = forms.iter().filter(|(form, _)| bytes[start..].starts_with(form.expose_secret().as_bytes()));
            let (form, name) = found.max_by_key(|(form, _)| form.expose_secret().len())?;
            Some((start..start + form.expose_secret().len(), name.as_str()))
        })
    }

    fn set_bit(&mut self, prefix: [u8; PREFIX]) {
        let bit = hash_prefix(prefix);
        if let Some(word) = self.filter.get_mut(bit / 64) {
            *word |= 1 << (bit % 64);
        }
    }

    fn has_bit(&self, prefix: [u8; PREFIX]) -> bool {
        let bit = hash_prefix(prefix);
        self.filter.get(bit / 64).is_some_and(|word| word & (1 << (bit % 64)) != 0)
    }
}

/// Multiplicative hashing (Knuth): the upper bits depend on all bytes.
fn hash_prefix(prefix: [u8; PREFIX]) -> usize {
    (u32::from_le_bytes(prefix).wrapping_mul(0x9e37_79b1) >> 16) as usize
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
