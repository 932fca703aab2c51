//! Parses host patterns: names with ranges and a port, as Ansible's `parse_address` and `expand_hostname_range` do.

/// Limit of hosts per pattern.
const MAX: usize = 100_000;

/// Returns the names that `pattern` expands to, and its port.
///
/// # Errors
/// Why a range is invalid, as a lowercase fragment.
pub(super) fn expand_pattern(pattern: &str) -> Result<(Vec<String>, Option<u16>), String> {
    let (name, port) = match split_port(pattern) {
        Some((name, port)) if is_host_name(name) => (name, Some(port)),
        _ => (pattern, None),
    };
    Ok((expand_ranges(name)?, port))
}

/// Splits `host:22` and `[host]:22`.
fn split_port(pattern: &str) -> Option<(&str, u16)> {
    let (name, port) = pattern.rsplit_once(':')?;
    if port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let name = match inner.filter(|inner| !inner.contains('[')) {
        Some(inner) => inner,
        None if strip_ranges(name).contains([':', ']', '[']) => return None,
        None => name,
    };
    Some((name, port.parse().ok()?))
}

/// Returns the text without `[…]` parts.
fn strip_ranges(name: &str) -> String {
    let mut out = String::new();
    let mut rest = name;
    while let Some(open) = rest.find('[') {
        out.push_str(&rest[..open]);
        match rest[open..].find(']') {
            Some(close) => rest = &rest[open + close + 1..],
            None => return out + &rest[open..],
        }
    }
    out + rest
}

/// Reports whether Ansible accepts the text as a host name or an address.
fn is_host_name(name: &str) -> bool {
    name.parse::<std::net::Ipv6Addr>().is_ok() || split_labels(name).iter().all(|label| is_label(label))
}

/// Splits at dots outside ranges. A range counts as one digit.
fn split_labels(name: &str) -> Vec<String> {
    let mut text = String::new();
    let mut rest = name;
    while let Some(open) = rest.find('[') {
        text.push_str(&rest[..open]);
        let Some(close) = rest[open..].find(']') else { break };
        text.push(if is_range(&rest[open + 1..open + close]) { '0' } else { '[' });
        rest = &rest[open + close + 1..];
    }
    text.push_str(rest);
    text.split('.').map(str::to_owned).collect()
}

fn is_range(inner: &str) -> bool {
    let parts: Vec<&str> = inner.split(':').collect();
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let letter = |part: &str| part.len() == 1 && part.bytes().all(|b| b.is_ascii_alphabetic());
    let bounds = |a, b| (number(a) && number(b)) || (letter(a) && letter(b));
    match parts[..] {
        [from, to] => bounds(from, to),
        [from, to, step] => bounds(from, to) && number(step),
        _ => false,
    }
}

fn is_label(label: &str) -> bool {
    let inner = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let first = label.chars().next().is_some_and(|c| c.is_alphanumeric() || c == '_');
    first && label.chars().all(inner) && !label.ends_with(['_', '-'])
}

fn expand_ranges(name: &str) -> Result<Vec<String>, String> {
    let Some(open) = name.find('[') else { return Ok(vec![name.to_owned()]) };
    let close = name[open..].find(']').ok_or("a range is not closed")? + open;
    let (head, tail) = (&name[..open], &name[close + 1..]);
    let tails = expand_ranges(tail)?;
    let values = expand_range_values(&name[open + 1..close])?;
    match values.len().checked_mul(tails.len()) {
        Some(count) if count <= MAX => {}
        _ => return Err(format!("a pattern expands to at most {MAX} hosts")),
    }
    Ok(values.iter().flat_map(|value| tails.iter().map(move |tail| format!("{head}{value}{tail}"))).collect())
}

/// Letters in the order of Python's `string.ascii_letters`.
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

fn expand_range_values(inner: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("`[{inner}]` is not a range");
    let parts: Vec<&str> = inner.split(':').collect();
    let (first, last, step) = match parts[..] {
        [first, last] => (first, last, 1),
        [first, last, step] => (first, last, step.parse::<usize>().ok().filter(|s| *s > 0).ok_or_else(wrong)?),
        _ => return Err(wrong()),
    };
    let first = if first.is_empty() { "0" } else { first };
    let padded = first.len() > 1 && first.starts_with('0');
    if padded && first.len() != last.len() {
        return Err(format!("`[{inner}]` is padded with zeros at one end only"));
    }
    let letter = |text: &str| (text.len() == 1).then(|| LETTERS.find(text)).flatten();
    if let (Some(from), Some(to)) = (letter(first), letter(last)) {
        return match from <= to {
            true => Ok(LETTERS[from..=to].chars().step_by(step).map(String::from).collect()),
            false => Err(format!("`[{inner}]` runs backwards")),
        };
    }
    let (from, to): (u64, u64) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
    if from > to {
        return Err(format!("`[{inner}]` runs backwards"));
    }
    if (to - from) / step as u64 >= MAX as u64 {
        return Err(format!("a pattern expands to at most {MAX} hosts"));
    }
    let width = if padded { first.len() } else { 0 };
    Ok((from..=to).step_by(step).map(|n| format!("{n:0width$}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_patterns_expand_as_in_ansible() {
        // origin: source, what _expand_hostpattern of ansible-core 2.18 returns
        let cases: &[(&str, &[&str], Option<u16>)] = &[
            ("web1", &["web1"], None),
            ("web1:2222", &["web1"], Some(2222)),
            ("web[08:10].x", &["web08.x", "web09.x", "web10.x"], None),
            ("web[1:2]:22", &["web1", "web2"], Some(22)),
            ("db-[a:c]", &["db-a", "db-b", "db-c"], None),
            ("n[1:5:2]", &["n1", "n3", "n5"], None),
            ("r[1:2]n[a:b]", &["r1na", "r1nb", "r2na", "r2nb"], None),
            ("[fe80::1]:22", &["fe80::1"], Some(22)),
            ("fe80::1", &["fe80::1"], None),
            ("n[:2]", &["n0", "n1", "n2"], None),
            ("foo_:22", &["foo_:22"], None),
        ];
        for (pattern, names, port) in cases {
            let (found, number) = expand_pattern(pattern).unwrap();
            assert_eq!(
                (found.iter().map(String::as_str).collect::<Vec<_>>().as_slice(), number),
                (*names, *port),
                "{pattern}"
            );
        }
        assert_eq!(expand_pattern("n[1:").unwrap_err(), "a range is not closed");
        assert_eq!(expand_pattern("n[01:100]").unwrap_err(), "`[01:100]` is padded with zeros at one end only");
        assert_eq!(expand_pattern("n[x]").unwrap_err(), "`[x]` is not a range");
        assert_eq!(expand_pattern("n[1:9999999]").unwrap_err(), "a pattern expands to at most 100000 hosts");
    }
}
