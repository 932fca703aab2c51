//! Parses cron schedules before any host is contacted: five fields, or a keyword with `@`.

const SCHEDULE_WORDS: [&str; 8] =
    ["@reboot", "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

struct ScheduleField {
    name: &'static str,
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const SCHEDULE_FIELDS: [ScheduleField; 5] = [
    ScheduleField { name: "minute", low: 0, high: 59, names: &[] },
    ScheduleField { name: "hour", low: 0, high: 23, names: &[] },
    ScheduleField { name: "day of the month", low: 1, high: 31, names: &[] },
    ScheduleField {
        name: "month",
        low: 1,
        high: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    ScheduleField {
        name: "day of the week",
        low: 0,
        high: 7,
        names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    },
];

/// Returns the schedule with fields separated by single blanks.
///
/// # Errors
/// The schedule is invalid; returns the message.
pub(super) fn parse_schedule(text: &str) -> Result<String, String> {
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    match fields.as_slice() {
        [word] if word.starts_with('@') => match SCHEDULE_WORDS.contains(word) {
            true => Ok((*word).to_owned()),
            false => {
                Err(format!("`{word}` is not a valid cron schedule; the keywords are {}", SCHEDULE_WORDS.join(", ")))
            }
        },
        fields if fields.len() == SCHEDULE_FIELDS.len() => {
            SCHEDULE_FIELDS
                .iter()
                .zip(fields)
                .try_for_each(|(unit, field)| field.split(',').try_for_each(|item| unit.check_item(item)))?;
            Ok(fields.join(" "))
        }
        fields => Err(format!(
            "a schedule needs five fields (minute, hour, day, month, day of the week), found {}",
            fields.len()
        )),
    }
}

impl ScheduleField {
    /// Checks `*`, `5`, `1-5`, `*/10`, `1-31/2` or a name.
    fn check_item(&self, item: &str) -> Result<(), String> {
        let (range, step) = item.split_once('/').map_or((item, None), |(range, step)| (range, Some(step)));
        if let Some(step) = step {
            let good = parse_digits(step).is_some_and(|step| (1..=self.high).contains(&step));
            if !good {
                return Err(format!("the step in `{item}` must be a number from 1 to {}", self.high));
            }
            if range != "*" && !range.contains('-') {
                return Err(format!("the step in `{item}` needs a range or `*` before the `/`"));
            }
        }
        match range.split_once('-') {
            _ if range == "*" => Ok(()),
            Some((from, to)) => {
                let (low, high) = (self.parse_value(from)?, self.parse_value(to)?);
                if low > high { Err(format!("the range `{range}` is reversed")) } else { Ok(()) }
            }
            None if self.names.contains(&range.to_ascii_lowercase().as_str()) => Ok(()),
            None => self.parse_value(range).map(drop),
        }
    }

    fn parse_value(&self, text: &str) -> Result<u32, String> {
        let found = parse_digits(text).filter(|n| (self.low..=self.high).contains(n));
        found.ok_or_else(|| format!("`{text}` is not a valid {} ({} to {})", self.name, self.low, self.high))
    }
}

/// Parses digits only, without a sign.
fn parse_digits(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_cron_schedules_are_accepted() {
        for good in ["@daily", "* * * * *", "*/5 0-6,22 1-31/2 Jan sun", "0 4 1 1,7 1-5", "59 23 31 12 7"] {
            assert_eq!(parse_schedule(good).as_deref(), Ok(good));
        }
        assert_eq!(parse_schedule(" 0  4 * *\t* ").as_deref(), Ok("0 4 * * *"));
    }

    #[test]
    fn invalid_schedule_reports_the_offending_field() {
        let said = |text: &str| parse_schedule(text).unwrap_err();
        assert_eq!(
            said("0 4 * *"),
            "a schedule needs five fields (minute, hour, day, month, day of the week), found 4"
        );
        assert_eq!(said("60 4 * * *"), "`60` is not a valid minute (0 to 59)");
        assert_eq!(said("0 4 0 * *"), "`0` is not a valid day of the month (1 to 31)");
        assert_eq!(said("0 4 * foo *"), "`foo` is not a valid month (1 to 12)");
        assert_eq!(said("0 4 * * mon-fri"), "`mon` is not a valid day of the week (0 to 7)");
        assert_eq!(said("*/0 4 * * *"), "the step in `*/0` must be a number from 1 to 59");
        assert_eq!(said("5/10 4 * * *"), "the step in `5/10` needs a range or `*` before the `/`");
        assert_eq!(said("0 22-6 * * *"), "the range `22-6` is reversed");
        assert_eq!(said("0 -1 * * *"), "`` is not a valid hour (0 to 23)");
        assert!(said("@often").starts_with("`@often` is not a valid cron schedule; the keywords are @reboot,"));
        assert_eq!(said("1, 4 * * *"), "`` is not a valid minute (0 to 59)");
    }
}
