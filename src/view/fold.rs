//! Folds host names to ranges in the syntax of the inventory, so that the output can be passed to `--on`.

use std::collections::BTreeMap;

/// A name, split at its numbers.
type NameTokens = Vec<NameToken>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NameToken {
    Text(String),
    Number(String),
    Range(String, String),
}

/// Returns `names` folded: `gpu[02:10],gpu15`. Ranges keep the order of their first names, duplicates are listed
/// once, and the ranges contain only the given names.
pub fn fold_names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut items: Vec<NameTokens> = Vec::new();
    for name in names {
        items.push(split_name(name));
    }
    let numbers = items.iter().map(|item| number_positions(item).count()).max().unwrap_or(0);
    for from_the_right in 0..numbers {
        items = fold_position(items, from_the_right);
    }
    let mut shown: Vec<String> = items.iter().map(|item| format_tokens(item)).collect();
    let mut seen = std::collections::BTreeSet::new();
    shown.retain(|name| seen.insert(name.clone()));
    shown.join(",")
}

/// Splits a name at its runs of digits. A name with brackets stays whole, because it would look like a range.
fn split_name(name: &str) -> NameTokens {
    if name.contains(['[', ']']) {
        return vec![NameToken::Text(name.to_owned())];
    }
    let mut out = NameTokens::new();
    for c in name.chars() {
        match (out.last_mut(), c.is_ascii_digit()) {
            (Some(NameToken::Number(run)), true) | (Some(NameToken::Text(run)), false) => run.push(c),
            (_, true) => out.push(NameToken::Number(c.to_string())),
            (_, false) => out.push(NameToken::Text(c.to_string())),
        }
    }
    out
}

/// Returns the positions of numbers and folded ranges.
fn number_positions(item: &[NameToken]) -> impl DoubleEndedIterator<Item = usize> + '_ {
    item.iter().enumerate().filter(|(_, token)| !matches!(token, NameToken::Text(_))).map(|(at, _)| at)
}

/// Folds the number at one position among names that are otherwise equal.
fn fold_position(items: Vec<NameTokens>, from_the_right: usize) -> Vec<NameTokens> {
    let mut groups: BTreeMap<(NameTokens, usize), NumberGroup> = BTreeMap::new();
    let mut whole = Vec::new();
    for (order, item) in items.into_iter().enumerate() {
        match extract_number(&item, from_the_right) {
            None => whole.push((order, item)),
            Some((rest, at, number)) => groups.entry((rest, at)).or_default().push(order, number),
        }
    }
    let folded = groups.into_iter().flat_map(|((rest, at), group)| {
        group.into_runs().into_iter().map(move |(order, token)| {
            let mut item = rest.clone();
            item.insert(at, token);
            (order, item)
        })
    });
    let mut all: Vec<_> = whole.into_iter().chain(folded).collect();
    all.sort();
    all.into_iter().map(|(_, item)| item).collect()
}

/// Removes the number at a position. Returns `None` if there is none or it is too long for `u64`.
fn extract_number(item: &[NameToken], from_the_right: usize) -> Option<(NameTokens, usize, String)> {
    let at = number_positions(item).rev().nth(from_the_right)?;
    let NameToken::Number(number) = &item[at] else { return None };
    if number.len() > 18 {
        return None;
    }
    let mut rest = item.to_vec();
    let number = number.clone();
    rest.remove(at);
    Some((rest, at, number))
}

/// The numbers at one position, with their input order.
#[derive(Default)]
struct NumberGroup {
    /// Input order by value and text. A padded number only continues a run of the same length.
    numbers: BTreeMap<(u64, String), usize>,
}

impl NumberGroup {
    fn push(&mut self, order: usize, number: String) {
        let value = number.parse().unwrap_or(u64::MAX);
        let first = self.numbers.entry((value, number)).or_insert(order);
        *first = (*first).min(order);
    }

    /// Returns runs of consecutive numbers, each with the lowest input order in it.
    fn into_runs(self) -> Vec<(usize, NameToken)> {
        let mut runs: Vec<NumberRun> = Vec::new();
        for ((_, number), order) in self.numbers {
            // Equal values differ only in padding, so the run to extend is among the latest few.
            match runs.iter_mut().rev().take(20).find(|run| run.next == number && run.can_extend(&number)) {
                Some(run) => run.extend(number, order),
                None => runs.push(NumberRun::new(number, order)),
            }
        }
        runs.into_iter().map(NumberRun::into_token).collect()
    }
}

struct NumberRun {
    first: String,
    last: String,
    /// The next number of the run, with padding.
    next: String,
    order: usize,
}

impl NumberRun {
    fn new(number: String, order: usize) -> Self {
        Self { next: next_number(&number, number.len()), last: number.clone(), first: number, order }
    }

    /// Reports whether `number` keeps the width of a run whose first number is padded.
    fn can_extend(&self, number: &str) -> bool {
        !is_padded(&self.first) || number.len() == self.first.len()
    }

    fn extend(&mut self, number: String, order: usize) {
        self.next = next_number(&number, self.first.len());
        self.last = number;
        self.order = self.order.min(order);
    }

    fn into_token(self) -> (usize, NameToken) {
        match self.first == self.last {
            true => (self.order, NameToken::Number(self.first)),
            false => (self.order, NameToken::Range(self.first, self.last)),
        }
    }
}

fn is_padded(number: &str) -> bool {
    number.len() > 1 && number.starts_with('0')
}

fn next_number(number: &str, width: usize) -> String {
    format!("{:0width$}", number.parse::<u64>().map_or(0, |value| value.saturating_add(1)))
}

fn format_tokens(item: &[NameToken]) -> String {
    item.iter()
        .map(|token| match token {
            NameToken::Text(text) | NameToken::Number(text) => text.clone(),
            NameToken::Range(first, last) => format!("[{first}:{last}]"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn fold_words(names: &str) -> String {
        fold_names(names.split_whitespace())
    }

    #[test]
    fn consecutive_numbers_become_a_range() {
        assert_eq!(fold_words("gpu02 gpu03 gpu04"), "gpu[02:04]");
        assert_eq!(fold_words("gpu04 gpu02 gpu03 gpu15"), "gpu[02:04],gpu15");
        assert_eq!(fold_words("n9 n10 n11"), "n[9:11]");
        assert_eq!(fold_words("n08 n09 n10 n11"), "n[08:11]");
        assert_eq!(fold_words("h100-node-14-31 h100-node-14-32"), "h100-node-14-[31:32]");
        assert_eq!(fold_words("10.0.0.1 10.0.0.2"), "10.0.0.[1:2]");
        assert_eq!(fold_words("gpu1-ib gpu2-ib"), "gpu[1:2]-ib");
    }

    #[test]
    fn padded_and_unpadded_numbers_are_not_mixed() {
        assert_eq!(fold_words("n1 n01 n2 n02"), "n[1:2],n[01:02]");
        assert_eq!(fold_words("n099 n100"), "n[099:100]");
        assert_eq!(fold_words("n99 n100"), "n[99:100]");
        assert_eq!(fold_words("n09 n10 n99 n100"), "n[09:10],n[99:100]");
        assert_eq!(fold_words("n00 n0"), "n00,n0");
    }

    #[test]
    fn names_with_two_numbers_fold_to_a_product() {
        assert_eq!(fold_words("r1n1 r1n2 r2n1 r2n2"), "r[1:2]n[1:2]");
        assert_eq!(fold_words("r1n1 r1n2 r2n1"), "r1n[1:2],r2n1");
    }

    #[test]
    fn unfoldable_names_are_kept() {
        assert_eq!(fold_words("web db"), "web,db");
        assert_eq!(fold_words("web web"), "web");
        assert_eq!(fold_words("a[1] a[2]"), "a[1],a[2]");
        assert_eq!(
            fold_words("n99999999999999999998 n99999999999999999999"),
            "n99999999999999999998,n99999999999999999999"
        );
        assert_eq!(fold_words(""), "");
    }

    /// Expands a folded list like the inventory expands ranges.
    fn expand_ranges(folded: &str) -> BTreeSet<String> {
        folded.split(',').filter(|f| !f.is_empty()).flat_map(expand_item).collect()
    }

    fn expand_item(item: &str) -> Vec<String> {
        let Some((before, rest)) = item.split_once('[') else { return vec![item.to_owned()] };
        let (range, after) = rest.split_once(']').unwrap();
        let (first, last) = range.split_once(':').unwrap();
        let width = if is_padded(first) { first.len() } else { 0 };
        let numbers = first.parse::<u64>().unwrap()..=last.parse::<u64>().unwrap();
        let tails = expand_item(after);
        numbers.flat_map(|n| tails.iter().map(move |tail| format!("{before}{n:0width$}{tail}"))).collect()
    }

    proptest! {
        #[test]
        fn expanding_a_fold_restores_the_names(names in proptest::collection::vec("[ab]{1,2}[0-2]{0,3}(-?[0-9]{1,2})?b?", 0..40)) {
            let expected: BTreeSet<String> = names.iter().cloned().collect();
            prop_assert_eq!(expand_ranges(&fold_names(names.iter().map(String::as_str))), expected);
        }
    }
}
