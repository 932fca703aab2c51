//! Schedules of cron, checked before any host is asked: five fields, or a word with `@`.

const WORDS: [&str; 8] = ["@reboot", "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

struct Unit {
    name: &'static str,
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const UNITS: [Unit; 5] = [
    Unit { name: "a minute", low: 0, high: 59, names: &[] },
    Unit { name: "an hour", low: 0, high: 23, names: &[] },
    Unit { name: "a day of the month", low: 1, high: 31, names: &[] },
    Unit {
        name: "a month",
        low: 1,
        high: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Unit { name: "a day of the week", low: 0, high: 7, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

/// Returns the schedule with single blanks.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse(text: &str) -> Result<String, String> {
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    match fields.as_slice() {
        [word] if word.starts_with('@') => match WORDS.contains(word) {
            true => Ok((*word).to_owned()),
            false => Err(format!("`{word}` is no schedule of cron: it knows {}", WORDS.join(", "))),
        },
        fields if fields.len() == UNITS.len() => {
            UNITS
                .iter()
                .zip(fields)
                .try_for_each(|(unit, field)| field.split(',').try_for_each(|item| unit.item(item)))?;
            Ok(fields.join(" "))
        }
        fields => Err(format!(
            "a schedule has five fields (minute, hour, day, month, day of the week), found {}",
            fields.len()
        )),
    }
}

impl Unit {
    /// Checks `*`, `5`, `1-5`, `*/10`, `1-31/2` or a name.
    fn item(&self, item: &str) -> Result<(), String> {
        let (range, step) = item.split_once('/').map_or((item, None), |(range, step)| (range, Some(step)));
        if let Some(step) = step {
            let good = number(step).is_some_and(|step| (1..=self.high).contains(&step));
            if !good {
                return Err(format!("`{item}` does not step by a number of 1 to {}", self.high));
            }
            if range != "*" && !range.contains('-') {
                return Err(format!("`{item}` steps over a single value: write a range or `*` before the `/`"));
            }
        }
        match range.split_once('-') {
            _ if range == "*" => Ok(()),
            Some((from, to)) => {
                let (low, high) = (self.value(from)?, self.value(to)?);
                if low > high { Err(format!("`{range}` runs backwards")) } else { Ok(()) }
            }
            None if self.names.contains(&range.to_ascii_lowercase().as_str()) => Ok(()),
            None => self.value(range).map(drop),
        }
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let found = number(text).filter(|n| (self.low..=self.high).contains(n));
        found.ok_or_else(|| format!("`{text}` is not {} ({} to {})", self.name, self.low, self.high))
    }
}

/// Reads digits and nothing else: no sign.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_that_cron_reads() {
        for good in ["@daily", "* * * * *", "*/5 0-6,22 1-31/2 Jan sun", "0 4 1 1,7 1-5", "59 23 31 12 7"] {
            assert_eq!(parse(good).as_deref(), Ok(good));
        }
        assert_eq!(parse(" 0  4 * *\t* ").as_deref(), Ok("0 4 * * *"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let said = |text: &str| parse(text).unwrap_err();
        assert_eq!(said("0 4 * *"), "a schedule has five fields (minute, hour, day, month, day of the week), found 4");
        assert_eq!(said("60 4 * * *"), "`60` is not a minute (0 to 59)");
        assert_eq!(said("0 4 0 * *"), "`0` is not a day of the month (1 to 31)");
        assert_eq!(said("0 4 * foo *"), "`foo` is not a month (1 to 12)");
        assert_eq!(said("0 4 * * mon-fri"), "`mon` is not a day of the week (0 to 7)");
        assert_eq!(said("*/0 4 * * *"), "`*/0` does not step by a number of 1 to 59");
        assert_eq!(said("5/10 4 * * *"), "`5/10` steps over a single value: write a range or `*` before the `/`");
        assert_eq!(said("0 22-6 * * *"), "`22-6` runs backwards");
        assert_eq!(said("0 -1 * * *"), "`` is not an hour (0 to 23)");
        assert!(said("@often").starts_with("`@often` is no schedule of cron: it knows @reboot, @yearly,"));
        assert_eq!(said("1, 4 * * *"), "`` is not a minute (0 to 59)");
    }
}
