//! `fio --output-format=json`: how much was read, and how long it took.

use crate::model::Value;

/// What the jobs of a run read together.
#[derive(Clone, Debug, PartialEq)]
pub struct FioRead {
    /// Bytes per second, of all jobs.
    pub bytes_per_second: f64,
    /// Duration of the longest job.
    pub milliseconds: u64,
    /// The first error number of a job; 0 if there is none.
    pub error: i64,
}

/// Parses the output of a run; `None` if it is not one. fio prints its messages in front of the document.
pub fn parse_fio(text: &str) -> Option<FioRead> {
    let document = text.find("{\n").and_then(|at| text.get(at..))?;
    let run: Value = serde_json::from_str(document.trim_end()).ok()?;
    let jobs = run.get("jobs")?.as_array()?;
    let mut read = FioRead { bytes_per_second: 0.0, milliseconds: 0, error: 0 };
    for job in jobs {
        read.bytes_per_second += job.pointer("/read/bw_bytes")?.as_f64()?;
        read.milliseconds = read.milliseconds.max(job.pointer("/read/runtime")?.as_u64()?);
        let error = job.get("error")?.as_i64()?;
        read.error = if read.error == 0 { error } else { read.error };
    }
    (!jobs.is_empty()).then_some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = include_str!("../../../tests/samples/fio-read.json");

    #[test]
    fn speed_and_duration_are_those_of_all_jobs() {
        let read = FioRead { bytes_per_second: 1_271_372_849.0, milliseconds: 1026, error: 0 };
        assert_eq!(parse_fio(RECORDED), Some(read.clone()));
        let warned = format!("fio: a message\n{RECORDED}");
        assert_eq!(parse_fio(&warned), Some(read));
        let mut two: Value = serde_json::from_str(RECORDED).unwrap();
        let mut other = two["jobs"][0].clone();
        other["error"] = 5.into();
        other["read"]["runtime"] = 2000.into();
        two["jobs"].as_array_mut().unwrap().push(other);
        let both = parse_fio(&serde_json::to_string_pretty(&two).unwrap()).unwrap();
        assert_eq!((both.bytes_per_second, both.milliseconds, both.error), (2.0 * 1_271_372_849.0, 2000, 5));
    }

    #[test]
    fn other_output_has_no_speed() {
        assert_eq!(parse_fio("fio: failed parsing rw=write\n"), None);
        assert_eq!(parse_fio("{\n \"jobs\": [] }"), None);
        assert_eq!(parse_fio(&RECORDED[..RECORDED.len() / 2]), None, "a truncated document");
    }
}
