//! `nvbandwidth`: the bandwidth of copies between a host and its GPUs, or between GPUs, as a matrix for each test case.

/// One measured copy.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuCopy {
    /// `CPU 0`, `GPU 3`.
    pub row: String,
    /// `GPU 5`.
    pub column: String,
    /// GB/s.
    pub gbytes: f64,
}

/// The result of one test case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuCopyTest {
    /// `host_to_device_memcpy_ce`.
    pub name: String,
    /// The measured copies; empty if it did not finish, or does not measure a bandwidth.
    pub copies: Vec<GpuCopy>,
    /// Why there are none, in the words of the program.
    pub problem: Option<String>,
}

/// The output of the program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuCopyRun {
    /// One for each test case that began.
    pub tests: Vec<GpuCopyTest>,
    /// Why none began, in the words of the program: a test case that this host cannot run is waived without its name.
    pub problem: Option<String>,
}

/// Parses every test case of an output.
pub fn parse_nvbandwidth(text: &str) -> GpuCopyRun {
    let mut run = GpuCopyRun::default();
    let mut sides: Option<(&str, &str)> = None;
    let mut columns: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("Running ").and_then(|rest| rest.strip_suffix('.')) {
            run.tests.push(GpuCopyTest { name: name.to_owned(), ..GpuCopyTest::default() });
            (sides, columns) = (None, Vec::new());
            continue;
        }
        let Some(test) = run.tests.last_mut() else {
            if run.problem.is_none() && is_problem(line) {
                run.problem = Some(line.to_owned());
            }
            continue;
        };
        if let Some(found) = read_sides(line) {
            (sides, columns) = (Some(found), Vec::new());
        } else if line.is_empty() {
            sides = None;
        } else if let Some(sides) = sides {
            let cells: Vec<&str> = line.split_whitespace().collect();
            match columns.is_empty() {
                true => columns = cells,
                false => test.copies.extend(read_row(sides, &columns, &cells)),
            }
        } else if test.problem.is_none() && is_problem(line) {
            test.problem = Some(line.to_owned());
        }
    }
    run
}

/// Returns the kinds of rows and columns in `memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)`. Latencies have others.
fn read_sides(line: &str) -> Option<(&str, &str)> {
    let words = line.strip_suffix("bandwidth (GB/s)")?;
    let side = |mark: &str| words.split_whitespace().find_map(|word| word.strip_suffix(mark));
    Some((side("(row)")?, side("(column)")?))
}

/// Returns the copies of a row. A pair that has no copy is `N/A`.
fn read_row(sides: (&str, &str), columns: &[&str], cells: &[&str]) -> Vec<GpuCopy> {
    let Some((row, values)) = cells.split_first() else { return Vec::new() };
    let copy = |(column, value): (&&str, &&str)| {
        let gbytes = value.parse().ok()?;
        Some(GpuCopy { row: format!("{} {row}", sides.0), column: format!("{} {column}", sides.1), gbytes })
    };
    columns.iter().zip(values).filter_map(copy).collect()
}

fn is_problem(line: &str) -> bool {
    line.starts_with("ASSERT") || line.starts_with("Waived") || line.to_ascii_lowercase().starts_with("error")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_read_from_the_matrix_of_each_test_case() {
        let tests = parse_nvbandwidth(include_str!("../../../tests/samples/nvbandwidth-h2d.txt")).tests;
        let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
        assert_eq!(names, ["host_to_device_memcpy_ce", "device_to_host_memcpy_ce"]);
        assert_eq!(tests[0].copies.len(), 8);
        let third = GpuCopy { row: "CPU 0".into(), column: "GPU 2".into(), gbytes: 23.90 };
        assert_eq!(tests[0].copies[2], third);
        let one = parse_nvbandwidth(include_str!("../../../tests/samples/nvbandwidth-h100.txt")).tests;
        assert_eq!(one[0].copies, [GpuCopy { row: "CPU 0".into(), column: "GPU 0".into(), gbytes: 51.85 }]);
    }

    #[test]
    fn problem_without_a_test_case_belongs_to_the_run() {
        let waived = parse_nvbandwidth(include_str!("../../../tests/samples/nvbandwidth-waived.txt"));
        assert_eq!(waived, GpuCopyRun { tests: Vec::new(), problem: Some("Waived:".to_owned()) });
        let unknown = parse_nvbandwidth(include_str!("../../../tests/samples/nvbandwidth-unknown-case.txt"));
        assert_eq!(unknown.problem.as_deref(), Some("ERROR: Testcase no_such_case not found!"));
    }

    #[test]
    fn pair_without_a_copy_is_left_out() {
        let tests = parse_nvbandwidth(include_str!("../../../tests/samples/nvbandwidth-p2p.txt")).tests;
        assert_eq!((tests.len(), tests[0].copies.len()), (1, 30));
        let last = GpuCopy { row: "GPU 5".into(), column: "GPU 4".into(), gbytes: 26.35 };
        assert_eq!(tests[0].copies.last(), Some(&last));
    }

    #[test]
    fn test_case_that_ended_has_no_copies() {
        let tests = parse_nvbandwidth(include_str!("../../../tests/samples/nvbandwidth-assert.txt")).tests;
        assert_eq!(tests[0].copies, []);
        assert!(tests[0].problem.as_ref().unwrap().starts_with("ASSERT in expression h_errorFlag == 0"), "{tests:?}");
        assert_eq!(parse_nvbandwidth("nvidia-smi: command not found\n"), GpuCopyRun::default());
    }
}
