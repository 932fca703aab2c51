//! Quantities in the format of the API: `8`, `1k`, `263856Mi`, `3920m`.

use crate::facts::snippet_output::unknown_part;
use crate::model::Value;

/// Parses a quantity as a whole number.
///
/// # Errors
/// The text is not a valid quantity or not a whole number: why, as a lowercase fragment.
pub fn parse_whole_quantity(text: &str) -> Result<i64, String> {
    let no = || format!("`{text}` is not a valid quantity");
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '+' | '-')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (sign, digits) = match number.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, number.strip_prefix('+').unwrap_or(number)),
    };
    let (before, after) = digits.split_once('.').unwrap_or((digits, ""));
    if before.is_empty() && after.is_empty() {
        return Err(no());
    }
    let after = after.trim_end_matches('0');
    let mantissa: i128 = format!("0{before}{after}").parse().map_err(|_| no())?;
    let (times, over) = unit_factor(unit).ok_or_else(no)?;
    let scale = u32::try_from(after.len()).ok().and_then(|places| 10_i128.checked_pow(places)).ok_or_else(no)?;
    let (top, bottom) = (mantissa.checked_mul(times).ok_or_else(no)?, over.checked_mul(scale).ok_or_else(no)?);
    match top % bottom {
        0 => i64::try_from(sign * (top / bottom)).map_err(|_| no()),
        _ => Err(format!("`{text}` is not a whole number")),
    }
}

/// Returns the factor and the divisor of a unit.
fn unit_factor(unit: &str) -> Option<(i128, i128)> {
    let by = |base: i128, power: u32| base.checked_pow(power);
    if let Some(power) = unit.strip_prefix(['e', 'E']).filter(|power| !power.is_empty()) {
        let power: i32 = power.parse().ok()?;
        let factor = by(10, power.unsigned_abs())?;
        return Some(if power < 0 { (1, factor) } else { (factor, 1) });
    }
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    const SMALL: [&str; 3] = ["m", "u", "n"];
    let at = |names: &[&str]| names.iter().position(|name| *name == unit).map(|at| at as u32 + 1);
    match (at(&BINARY), at(&DECIMAL), at(&SMALL)) {
        _ if unit.is_empty() => Some((1, 1)),
        (Some(power), _, _) => Some((by(1024, power)?, 1)),
        (_, Some(power), _) => Some((by(1000, power)?, 1)),
        (_, _, Some(power)) => Some((1, by(1000, power)?)),
        _ => None,
    }
}

/// Returns a map of quantities as whole numbers. A quantity that is not a whole number is unknown.
pub(super) fn parse_quantities(map: Option<&Value>) -> Value {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    let one = |value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        parse_whole_quantity(&text).map_or_else(unknown_part, Value::from)
    };
    Value::Object(entries.map(|(name, value)| (name.clone(), one(value))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quantities_with_any_suffix_become_integers() {
        // origin: source, the grammar in k8s.io/apimachinery/pkg/api/resource/quantity.go
        let cases = [
            ("8", 8),
            ("1k", 1000),
            ("0", 0),
            ("1Ki", 1024),
            ("2M", 2_000_000),
            ("263856Mi", 276_673_069_056),
            ("1.5Gi", 1_610_612_736),
            ("2000m", 2),
            ("0.5k", 500),
            ("1e3", 1000),
            ("12E2", 1200),
            ("3E", 3_000_000_000_000_000_000),
            ("-4", -4),
            ("+4", 4),
            (".5k", 500),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_whole_quantity(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn invalid_quantity_is_an_error_not_zero() {
        assert_eq!(parse_whole_quantity("3920m"), Err("`3920m` is not a whole number".to_owned()));
        assert_eq!(parse_whole_quantity("1.10"), Err("`1.10` is not a whole number".to_owned()));
        for text in
            ["", "k", "1kk", "1 k", "x", "1e", "1K", "99E18", "9999999999999999999999999999999999999999", "1.2.3"]
        {
            assert_eq!(parse_whole_quantity(text), Err(format!("`{text}` is not a valid quantity")));
        }
        assert_eq!(
            parse_quantities(Some(&json!({ "rdma/ib": "1k", "cpu": "3920m", "pods": 110 }))),
            json!({ "rdma/ib": 1000, "cpu": { "unknown": "`3920m` is not a whole number" }, "pods": 110 })
        );
        assert_eq!(parse_quantities(None), json!({}));
    }
}
