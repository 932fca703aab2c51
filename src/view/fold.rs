//! Folds host names to ranges, in the inventory's own spelling: what is printed can be given to `--on`.

use std::collections::BTreeMap;

/// A name, cut at its numbers.
type Tokens = Vec<Token>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Token {
    Text(String),
    Number(String),
    Range(String, String),
}

/// Returns `names` folded: `gpu[02:10],gpu15`. Order of the first of each range is kept, names that stand
/// twice are listed once, and no name is listed that was not given.
pub fn fold<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut items: Vec<Tokens> = Vec::new();
    for name in names {
        items.push(tokens(name));
    }
    let numbers = items.iter().map(|item| numbers(item).count()).max().unwrap_or(0);
    for from_the_right in 0..numbers {
        items = fold_at(items, from_the_right);
    }
    let mut shown: Vec<String> = items.iter().map(|item| show(item)).collect();
    let mut seen = std::collections::BTreeSet::new();
    shown.retain(|name| seen.insert(name.clone()));
    shown.join(",")
}

/// Cuts a name at its runs of digits. A name with brackets is left whole: it could not be told from a range.
fn tokens(name: &str) -> Tokens {
    if name.contains(['[', ']']) {
        return vec![Token::Text(name.to_owned())];
    }
    let mut out = Tokens::new();
    for c in name.chars() {
        match (out.last_mut(), c.is_ascii_digit()) {
            (Some(Token::Number(run)), true) | (Some(Token::Text(run)), false) => run.push(c),
            (_, true) => out.push(Token::Number(c.to_string())),
            (_, false) => out.push(Token::Text(c.to_string())),
        }
    }
    out
}

/// Positions of what is or was a number.
fn numbers(item: &[Token]) -> impl DoubleEndedIterator<Item = usize> + '_ {
    item.iter().enumerate().filter(|(_, token)| !matches!(token, Token::Text(_))).map(|(at, _)| at)
}

/// Folds the number at one position, among the names that are equal everywhere else.
fn fold_at(items: Vec<Tokens>, from_the_right: usize) -> Vec<Tokens> {
    let mut groups: BTreeMap<(Tokens, usize), Group> = BTreeMap::new();
    let mut whole = Vec::new();
    for (order, item) in items.into_iter().enumerate() {
        match hole(&item, from_the_right) {
            None => whole.push((order, item)),
            Some((rest, at, number)) => groups.entry((rest, at)).or_default().push(order, number),
        }
    }
    let folded = groups.into_iter().flat_map(|((rest, at), group)| {
        group.runs().into_iter().map(move |(order, token)| {
            let mut item = rest.clone();
            item.insert(at, token);
            (order, item)
        })
    });
    let mut all: Vec<_> = whole.into_iter().chain(folded).collect();
    all.sort();
    all.into_iter().map(|(_, item)| item).collect()
}

/// Takes out the number at a position; `None` where there is none, or it is too long to count with.
fn hole(item: &[Token], from_the_right: usize) -> Option<(Tokens, usize, String)> {
    let at = numbers(item).rev().nth(from_the_right)?;
    let Token::Number(number) = &item[at] else { return None };
    if number.len() > 18 {
        return None;
    }
    let mut rest = item.to_vec();
    let number = number.clone();
    rest.remove(at);
    Some((rest, at, number))
}

/// The numbers at one position, with the order in which they came.
#[derive(Default)]
struct Group {
    /// By (length if padded, value): a padded number only follows one of the same length.
    numbers: BTreeMap<(u64, String), usize>,
}

impl Group {
    fn push(&mut self, order: usize, number: String) {
        let value = number.parse().unwrap_or(u64::MAX);
        let first = self.numbers.entry((value, number)).or_insert(order);
        *first = (*first).min(order);
    }

    /// Runs of consecutive numbers, each with the order of its first.
    fn runs(self) -> Vec<(usize, Token)> {
        let mut runs: Vec<Run> = Vec::new();
        for ((_, number), order) in self.numbers {
            // Equal values differ in padding only, so the run to go on with is among the latest few.
            match runs.iter_mut().rev().take(20).find(|run| run.next == number && run.fits(&number)) {
                Some(run) => run.extend(number, order),
                None => runs.push(Run::new(number, order)),
            }
        }
        runs.into_iter().map(Run::token).collect()
    }
}

struct Run {
    first: String,
    last: String,
    /// How the next number of the run is written.
    next: String,
    order: usize,
}

impl Run {
    fn new(number: String, order: usize) -> Self {
        Self { next: next(&number, number.len()), last: number.clone(), first: number, order }
    }

    /// A range whose start is padded keeps its width to the end.
    fn fits(&self, number: &str) -> bool {
        !padded(&self.first) || number.len() == self.first.len()
    }

    fn extend(&mut self, number: String, order: usize) {
        self.next = next(&number, self.first.len());
        self.last = number;
        self.order = self.order.min(order);
    }

    fn token(self) -> (usize, Token) {
        match self.first == self.last {
            true => (self.order, Token::Number(self.first)),
            false => (self.order, Token::Range(self.first, self.last)),
        }
    }
}

fn padded(number: &str) -> bool {
    number.len() > 1 && number.starts_with('0')
}

fn next(number: &str, width: usize) -> String {
    format!("{:0width$}", number.parse::<u64>().map_or(0, |value| value.saturating_add(1)))
}

fn show(item: &[Token]) -> String {
    item.iter()
        .map(|token| match token {
            Token::Text(text) | Token::Number(text) => text.clone(),
            Token::Range(first, last) => format!("[{first}:{last}]"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn folded(names: &str) -> String {
        fold(names.split_whitespace())
    }

    #[test]
    fn consecutive_numbers_become_a_range() {
        assert_eq!(folded("gpu02 gpu03 gpu04"), "gpu[02:04]");
        assert_eq!(folded("gpu04 gpu02 gpu03 gpu15"), "gpu[02:04],gpu15");
        assert_eq!(folded("n9 n10 n11"), "n[9:11]");
        assert_eq!(folded("n08 n09 n10 n11"), "n[08:11]");
        assert_eq!(folded("h100-node-14-31 h100-node-14-32"), "h100-node-14-[31:32]");
        assert_eq!(folded("10.0.0.1 10.0.0.2"), "10.0.0.[1:2]");
        assert_eq!(folded("gpu1-ib gpu2-ib"), "gpu[1:2]-ib");
    }

    #[test]
    fn padding_is_kept_apart() {
        assert_eq!(folded("n1 n01 n2 n02"), "n[1:2],n[01:02]");
        assert_eq!(folded("n099 n100"), "n[099:100]");
        assert_eq!(folded("n99 n100"), "n[99:100]");
        assert_eq!(folded("n09 n10 n99 n100"), "n[09:10],n[99:100]");
        assert_eq!(folded("n00 n0"), "n00,n0");
    }

    #[test]
    fn two_numbers_fold_to_a_product() {
        assert_eq!(folded("r1n1 r1n2 r2n1 r2n2"), "r[1:2]n[1:2]");
        assert_eq!(folded("r1n1 r1n2 r2n1"), "r1n[1:2],r2n1");
    }

    #[test]
    fn what_cannot_fold_stays() {
        assert_eq!(folded("web db"), "web,db");
        assert_eq!(folded("web web"), "web");
        assert_eq!(folded("a[1] a[2]"), "a[1],a[2]");
        assert_eq!(
            folded("n99999999999999999998 n99999999999999999999"),
            "n99999999999999999998,n99999999999999999999"
        );
        assert_eq!(folded(""), "");
    }

    /// Reads a folded list the way an inventory reads ranges.
    fn expand(folded: &str) -> BTreeSet<String> {
        folded.split(',').filter(|f| !f.is_empty()).flat_map(expand_one).collect()
    }

    fn expand_one(item: &str) -> Vec<String> {
        let Some((before, rest)) = item.split_once('[') else { return vec![item.to_owned()] };
        let (range, after) = rest.split_once(']').unwrap();
        let (first, last) = range.split_once(':').unwrap();
        let width = if padded(first) { first.len() } else { 0 };
        let numbers = first.parse::<u64>().unwrap()..=last.parse::<u64>().unwrap();
        let tails = expand_one(after);
        numbers.flat_map(|n| tails.iter().map(move |tail| format!("{before}{n:0width$}{tail}"))).collect()
    }

    proptest! {
        #[test]
        fn folding_is_undone_by_expanding(names in proptest::collection::vec("[ab]{1,2}[0-2]{0,3}(-?[0-9]{1,2})?b?", 0..40)) {
            let expected: BTreeSet<String> = names.iter().cloned().collect();
            prop_assert_eq!(expand(&fold(names.iter().map(String::as_str))), expected);
        }
    }
}
