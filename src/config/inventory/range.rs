//! Expands ranges in names and addresses: `node-[31:40]`, `[01:20]`, `[1:9:2]`, `[a:f]`.

/// Limit of names per pattern.
const MAX: usize = 100_000;

/// A parsed pattern: literal text and ranges in alternation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RangePattern(Vec<RangeSegment>);

#[derive(Clone, Debug, PartialEq)]
enum RangeSegment {
    Text(String),
    Range(Vec<String>),
}

impl RangePattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// Why a range is invalid, as a lowercase fragment.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        let mut count = 1usize;
        while let Some(open) = rest.find('[') {
            let close = rest[open..].find(']').ok_or("a range is not closed")? + open;
            parts.push(RangeSegment::Text(rest[..open].to_owned()));
            let values = expand_range(&rest[open + 1..close])?;
            // The limit is checked per range: a pattern of many ranges would exhaust memory before expansion.
            count = count.saturating_mul(values.len());
            if count > MAX {
                return Err(format_too_many_names());
            }
            parts.push(RangeSegment::Range(values));
            rest = &rest[close + 1..];
        }
        if rest.contains(']') {
            return Err("`]` has no matching `[`".to_owned());
        }
        parts.push(RangeSegment::Text(rest.to_owned()));
        Ok(Self(parts))
    }

    /// Returns every name of the pattern. The last range varies fastest.
    pub fn expand(&self) -> Vec<String> {
        self.0.iter().fold(vec![String::new()], |names, part| match part {
            RangeSegment::Text(text) => names.into_iter().map(|name| name + text).collect(),
            RangeSegment::Range(values) => {
                names.iter().flat_map(|name| values.iter().map(move |value| format!("{name}{value}"))).collect()
            }
        })
    }
}

fn format_too_many_names() -> String {
    format!("a pattern expands to at most {MAX} names")
}

fn expand_range(inner: &str) -> Result<Vec<String>, String> {
    let parts: Vec<&str> = inner.split(':').collect();
    let (first, last, step) = match parts[..] {
        [first, last] => (first, last, 1),
        [first, last, step] => (
            first,
            last,
            step.parse::<u64>()
                .ok()
                .filter(|s| *s > 0)
                .ok_or_else(|| format!("the step of `[{inner}]` must be at least 1"))?,
        ),
        _ => return Err(format_no_range(inner)),
    };
    match (parse_number(first), parse_number(last)) {
        (Some(from), Some(to)) => expand_numbers(inner, (first, from), (last, to), step),
        _ => expand_letters(inner, first, last, step),
    }
}

fn format_no_range(inner: &str) -> String {
    let meant = inner.split_once("..").or_else(|| inner.split_once('-'));
    let meant = meant.filter(|(first, last)| parse_number(first).is_some() && parse_number(last).is_some());
    let hint = meant.map(|(first, last)| format!("; did you mean `[{first}:{last}]`?")).unwrap_or_default();
    format!("`[{inner}]` is not a range{hint}")
}

fn parse_number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

fn expand_numbers(
    inner: &str,
    (first, from): (&str, u64),
    (last, to): (&str, u64),
    step: u64,
) -> Result<Vec<String>, String> {
    if from > to {
        return Err(format!("`[{inner}]` runs backwards"));
    }
    let padded = |text: &str| text.len() > 1 && text.starts_with('0');
    if (padded(first) || padded(last)) && first.len() != last.len() {
        return Err(format!("`[{inner}]` is padded with zeros at one end only"));
    }
    if (to - from) / step >= MAX as u64 {
        return Err(format_too_many_names());
    }
    let width = if padded(first) { first.len() } else { 0 };
    Ok((from..=to).step_by(step as usize).map(|n| format!("{n:0width$}")).collect())
}

fn expand_letters(inner: &str, first: &str, last: &str, step: u64) -> Result<Vec<String>, String> {
    let (&[from], &[to]) = (first.as_bytes(), last.as_bytes()) else {
        return Err(format!("`[{inner}]` is not a range"));
    };
    let same_case = (from.is_ascii_lowercase() && to.is_ascii_lowercase())
        || (from.is_ascii_uppercase() && to.is_ascii_uppercase());
    match (same_case, from <= to) {
        (false, _) => Err(format!("`[{inner}]` is not a range")),
        (_, false) => Err(format!("`[{inner}]` runs backwards")),
        _ => Ok((from..=to).step_by(step.min(26) as usize).map(|b| (b as char).to_string()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> Result<Vec<String>, String> {
        RangePattern::parse(text).map(|pattern| pattern.expand())
    }

    #[test]
    fn ranges_expand() {
        assert_eq!(expand("node-[9:11]").unwrap(), ["node-9", "node-10", "node-11"]);
        assert_eq!(expand("n[08:10]x").unwrap(), ["n08x", "n09x", "n10x"]);
        assert_eq!(expand("[1:9:4]").unwrap(), ["1", "5", "9"]);
        assert_eq!(expand("r[a:b]-[1:2]").unwrap(), ["ra-1", "ra-2", "rb-1", "rb-2"]);
        assert_eq!(expand("plain").unwrap(), ["plain"]);
        assert_eq!(expand("[0:1]").unwrap(), ["0", "1"]);
    }

    #[test]
    fn invalid_ranges_are_rejected_with_a_reason() {
        let cases = [
            ("n[1:2", "a range is not closed"),
            ("n1]", "`]` has no matching `[`"),
            ("n[3:1]", "`[3:1]` runs backwards"),
            ("n[1]", "`[1]` is not a range"),
            ("n[1,2]", "`[1,2]` is not a range"),
            ("n[]", "`[]` is not a range"),
            ("n[01-16]", "`[01-16]` is not a range; did you mean `[01:16]`?"),
            ("n[1..8]", "`[1..8]` is not a range; did you mean `[1:8]`?"),
            ("n[01:100]", "`[01:100]` is padded with zeros at one end only"),
            ("n[1:5:0]", "the step of `[1:5:0]` must be at least 1"),
            ("n[a:F]", "`[a:F]` is not a range"),
            ("n[1:999999999]", "a pattern expands to at most 100000 names"),
            ("n[1:1000]-[1:1000]", "a pattern expands to at most 100000 names"),
        ];
        for (text, why) in cases {
            assert_eq!(expand(text), Err(why.to_owned()), "{text}");
        }
    }
}
