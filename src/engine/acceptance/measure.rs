//! Runs the programs of a test on one host or two, and judges their output.

use super::adapter_values::read_adapter_values;
use super::gpu_memory::add_gpu_memory;
use super::test_cluster::TestCluster;
use super::test_host::TestHost;
use super::test_scripts::{
    SERVER_FAILED, build_client_script, build_program_script, build_result_script, build_server_script,
    build_stop_script,
};
use crate::acceptance::{
    CollectiveValue, ConnectionEnds, ExpectedValue, TestVerdict, expect_share, has_ucx_row, judge_bandwidth,
    judge_collective, judge_dcgm, judge_fio, judge_gpu_clocks, judge_latency, judge_number, judge_nvbandwidth,
    judge_pingpong, judge_rping, judge_sysbench, judge_ucx, judge_wrong_values, parse_size,
};
use crate::config::{DeclaredLimit, DeclaredTest, Project, TestOutput, TestPrograms, find_placeholders};
use crate::engine::cancel::{CancelSignal, StopLevel};
use crate::engine::host_session::{HostScriptOutput, describe_transport_error, summarize_stderr};
use crate::facts::command::nccl_log::parse_nccl_log;
use crate::facts::command::nccl_tests::parse_nccl_test;
use crate::model::{HostName, UntrustedText};
use crate::script::ShellFragment;
use crate::transport::TransportError;
use std::collections::BTreeMap;
use std::time::Duration;

/// The address that both ends have if they run on one host.
const LOCAL_ADDRESS: &str = "127.0.0.1";

/// Time for starting and stopping in addition to the test's own limit.
const GRACE: Duration = Duration::from_secs(30);

/// Seconds for which a server outlives the limit of its client, which starts later: the limit ends the client first,
/// and the client's result says so.
const SERVER_GRACE_S: u64 = 15;

/// Bytes that are kept of the begin and of the end of an output.
const KEPT_OUTPUT: usize = 64 << 10;

/// Why a program that the user stopped has no result.
pub(super) const STOPPED: &str = "stopped";

/// How the program ended whose output decides a measurement.
pub(super) struct ProgramEnd {
    output: HostScriptOutput,
    /// What stopped it; `None` if it ended by itself.
    stopped_by: Option<StopCause>,
    /// The signal that ended it, as the service manager says: `by signal KILL`.
    signal: Option<String>,
}

/// What stopped a program.
#[derive(Clone, Copy, PartialEq)]
enum StopCause {
    /// A stop request before it ended. Its status does not show that: `systemd-run --wait` succeeds if its unit was
    /// stopped, and a program that catches SIGTERM chooses its status.
    User,
    /// The time limit of the test.
    Limit,
    /// forge: nothing answered its connection to the server.
    Unanswered,
}

/// The result of a unit whose `RuntimeMaxSec=` ended it.
const RESULT_TIMEOUT: &str = "timeout";
/// The result of a client whose connection nothing answered.
const RESULT_UNANSWERED: &str = "unanswered";

/// The results of a unit whose main process a signal ended; `systemd-run --wait` then exits with 255.
const RESULTS_BY_SIGNAL: [&str; 3] = ["signal", "core-dump", "oom-kill"];

/// A measurement with what the programs printed.
pub(super) struct TestMeasurement {
    pub verdict: TestVerdict,
    pub outputs: Vec<UntrustedText>,
    /// Hosts that could not be reached any more.
    pub lost: Vec<HostName>,
}

/// The two ends of a measurement, each the server and then the client.
struct TestEnds<'r> {
    programs: (&'r [String], &'r [String]),
    hosts: (&'r TestHost<'r>, &'r TestHost<'r>),
    /// The address that the client connects to.
    address: &'r str,
}

/// The inputs of a measurement, except its hosts.
pub(super) struct MeasureContext<'r> {
    pub project: &'r Project,
    pub test: &'r DeclaredTest,
    /// The name of the run.
    pub run: &'r str,
    pub cancel: &'r CancelSignal,
    /// Where tests run that start as jobs; `None` if no test of the run may do so.
    pub cluster: Option<&'r TestCluster<'r>>,
}

impl MeasureContext<'_> {
    /// Returns whether the user requested a stop.
    pub fn is_stopped(&self) -> bool {
        self.cancel.level() > StopLevel::No
    }

    /// Returns the seconds that the program may run. `srun` also waits for its nodes.
    pub fn time_limit_s(&self) -> u64 {
        self.test.definition.limit_s + self.test.launch.as_slurm().map_or(0, |slurm| slurm.start_within_s)
    }

    /// Measures one host, or one of its adapters with both ends on it.
    pub async fn measure_host(&self, host: &TestHost<'_>, rail: Option<&str>, number: usize) -> TestMeasurement {
        let command = match &self.test.definition.programs {
            TestPrograms::Host(command) => command,
            TestPrograms::Loopback { server, client } => {
                let ends = TestEnds { programs: (server, client), hosts: (host, host), address: LOCAL_ADDRESS };
                return self.measure_ends(&ends, rail, number).await;
            }
            TestPrograms::Pair { .. } | TestPrograms::Group(_) => {
                return not_measured("the test needs two hosts", Vec::new());
            }
        };
        let command = add_gpu_memory(command, host.facts(), rail);
        let words = match command.and_then(|words| fill_words(&words, &self.parameters_for(rail, None))) {
            Ok(words) => words,
            Err(why) => return not_measured(&why, Vec::new()),
        };
        let unit = format!("forge-test-{}-{number}", self.run);
        let script = build_program_script(&unit, self.test.definition.limit_s, &words);
        match self.run_program(host, &unit, script).await {
            Ok(end) => self.judge(&end, Vec::new(), self.expect(&[host], rail)),
            Err(error) => lose_host(host, &error, describe_transport_error(&error).raw(), Vec::new()),
        }
    }

    /// Measures two hosts.
    pub async fn measure_pair(
        &self,
        server: &TestHost<'_>,
        client: &TestHost<'_>,
        rail: Option<&str>,
        number: usize,
    ) -> TestMeasurement {
        let TestPrograms::Pair { server: server_words, client: client_words } = &self.test.definition.programs else {
            return not_measured("the test runs on one host", Vec::new());
        };
        let programs = (server_words.as_slice(), client_words.as_slice());
        let ends = TestEnds { programs, hosts: (server, client), address: &server.address };
        self.measure_ends(&ends, rail, number).await
    }

    /// Starts the server, runs the client, stops the server.
    async fn measure_ends(&self, ends: &TestEnds<'_>, rail: Option<&str>, number: usize) -> TestMeasurement {
        let ((server_words, client_words), (server, client)) = (ends.programs, ends.hosts);
        let parameters = self.parameters_for(rail, Some(ends.address));
        let fill = |words: &[String], host: &TestHost<'_>| {
            let own = add_gpu_memory(words, host.facts(), rail).map_err(|why| format!("{}: {why}", host.name))?;
            let mut values = parameters.clone();
            values.extend(read_adapter_values(words, &parameters, (server, host), rail)?);
            fill_words(&own, &values)
        };
        let (server_words, client_words) = match (fill(server_words, server), fill(client_words, client)) {
            (Ok(server), Ok(client)) => (server, client),
            (Err(why), _) | (_, Err(why)) => return not_measured(&why, Vec::new()),
        };
        let Some(port) = parameters.get("port").and_then(|port| port.parse::<u16>().ok()) else {
            return not_measured("a test with a server needs the parameter `port`, a number", Vec::new());
        };
        let (limit, run) = (self.test.definition.limit_s, self.run);
        let unit = format!("forge-test-{run}-{number}-server");
        let listening = (self.test.definition.listens, port);
        let started =
            self.run_script(server, build_server_script(&unit, limit + SERVER_GRACE_S, listening, &server_words)).await;
        match started {
            Ok(done) if done.finished.status == 0 => {}
            Ok(done) if self.is_stopped() => return not_measured(STOPPED, vec![read_output(&done)]),
            Ok(done) => {
                let printed = summarize_stderr(&done.finished.stderr);
                let why = format!("the server did not start on `{}`: {printed}", server.name);
                return not_measured(&why, Vec::new());
            }
            Err(error) => return lose_host(server, &error, &describe_loss(server, &error), Vec::new()),
        }
        if self.is_stopped() {
            let stopped = self.run_script(server, build_stop_script(&unit)).await;
            return not_measured(STOPPED, stopped.map(|done| read_output(&done)).into_iter().collect());
        }
        let client_unit = format!("forge-test-{run}-{number}-client");
        let script = build_client_script(&client_unit, limit, listening, &client_words);
        let end = self.run_program(client, &client_unit, script).await;
        let stopped = self.run_script(server, build_stop_script(&unit)).await;
        let (printed, failure, lost) = match stopped {
            Ok(done) => (read_server_output(&done), describe_server_failure(&done), None),
            // The client may only have seen that its server does not answer.
            Err(error) => {
                let why = format!("how it ended is not known: {}", describe_transport_error(&error).raw());
                (UntrustedText::default(), Some(why), error.is_unreachable().then(|| server.name.clone()))
            }
        };
        let was_cut = end.as_ref().is_ok_and(|end| end.stopped_by == Some(StopCause::Limit))
            && self.test.definition.output.has_running_result();
        let mut measured = match end {
            Ok(end) => self.judge(&end, vec![printed], self.expect(&[server, client], rail)),
            Err(error) => lose_host(client, &error, &describe_loss(client, &error), vec![printed]),
        };
        // What the client measured was not the service of a program that failed.
        // One whose client the limit has stopped lost its connection.
        if let Some(why) = failure.filter(|_| !was_cut && measured.verdict.value().is_some()) {
            measured.verdict = TestVerdict::not_measured(format!("the server on `{}`: {why}", server.name));
        }
        measured.lost.extend(lost);
        measured
    }

    /// Runs a script of the test on a host. What it prints is scrubbed of secrets.
    pub async fn run_script(
        &self,
        host: &TestHost<'_>,
        body: ShellFragment,
    ) -> Result<HostScriptOutput, TransportError> {
        let limit = Duration::from_secs(self.time_limit_s()) + GRACE;
        let secrets = &self.project.secrets;
        let mut output = host.link.run_script(body, limit, secrets).await?;
        if !secrets.is_empty() {
            let scrub = |bytes: &[u8]| secrets.scrub_secrets(&String::from_utf8_lossy(bytes)).into_bytes();
            output.finished.stdout = scrub(&output.finished.stdout);
            output.finished.stderr = scrub(&output.finished.stderr);
        }
        Ok(output)
    }

    /// Runs the script of the program that prints the result.
    pub async fn run_program(
        &self,
        host: &TestHost<'_>,
        unit: &str,
        body: ShellFragment,
    ) -> Result<ProgramEnd, TransportError> {
        let output = self.run_script(host, body).await?;
        let was_stopped = self.is_stopped();
        let result = match output.finished.status {
            0 => None,
            _ => Some(self.run_script(host, build_result_script(unit)).await?),
        };
        let result = result.map(|done| String::from_utf8_lossy(&done.finished.stdout).into_owned()).unwrap_or_default();
        let result = split_result(&result);
        let stopped_by = match was_stopped {
            true => Some(StopCause::User),
            false => match result.0 {
                RESULT_TIMEOUT => Some(StopCause::Limit),
                RESULT_UNANSWERED => Some(StopCause::Unanswered),
                _ => None,
            },
        };
        Ok(ProgramEnd { output, stopped_by, signal: describe_signal(result) })
    }

    fn parameters_for(&self, rail: Option<&str>, address: Option<&str>) -> BTreeMap<String, String> {
        let mut parameters = self.test.parameters.clone();
        parameters.extend(rail.map(|rail| ("device".to_owned(), rail.to_owned())));
        parameters.extend(address.map(|address| ("address".to_owned(), address.to_owned())));
        parameters
    }

    /// Returns the expected value. A limit relative to other results is applied once all are known.
    pub fn expect(&self, hosts: &[&TestHost<'_>], rail: Option<&str>) -> Result<ExpectedValue, String> {
        let unit = self.test.definition.output.unit();
        match &self.test.expected {
            DeclaredLimit::Least(least) => Ok(ExpectedValue::at_least(*least, unit, "declared")),
            DeclaredLimit::Most(most) => Ok(ExpectedValue::at_most(*most, unit, "declared")),
            DeclaredLimit::Floor(floor) => floor.to_expected().ok_or_else(|| "the floor has no limit".to_owned()),
            DeclaredLimit::OwnVerdict => Ok(ExpectedValue::at_least(1.0, unit, "of the program")),
            DeclaredLimit::Peers(share) => Ok(match self.test.definition.output.is_more_better() {
                true => ExpectedValue::at_least(f64::MIN, unit, &format!("{share} of its peers")),
                false => ExpectedValue::at_most(f64::MAX, unit, &format!("{share} of its peers")),
            }),
            DeclaredLimit::Share { share, of: Some(of) } => Ok(expect_share(*of, *share, unit)),
            DeclaredLimit::Share { share, of: None } => {
                let rates = hosts.iter().map(|host| host.adapters.get(rail?).copied().flatten());
                let rates: Option<Vec<f64>> = rates.collect();
                let slowest = rates.and_then(|rates| rates.into_iter().reduce(f64::min));
                slowest
                    .map(|rate| expect_share(rate, *share, unit))
                    .ok_or_else(|| "the rate of the port is unknown; declare the ceiling with `of`".to_owned())
            }
        }
    }

    /// Returns the diagnostics that need not run.
    fn list_permitted_skips(&self) -> Vec<&str> {
        let listed = self.test.parameters.get("may_skip").map(String::as_str).unwrap_or_default();
        listed.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
    }

    /// Returns which bus bandwidth the limit is about.
    fn collective_value(&self) -> CollectiveValue {
        match &self.test.expected {
            DeclaredLimit::Floor(floor) => floor.collective_value().unwrap_or_default(),
            _ => CollectiveValue::default(),
        }
    }

    /// Adds a question to the reason that a limit stopped the client of a server, if both printed nothing: a firewall may
    /// drop what the client sends.
    fn explain_limit(&self, limit: String, outputs: &[UntrustedText]) -> String {
        let is_silent = outputs.len() == 2 && outputs.iter().all(|output| output.raw().trim().is_empty());
        match self.test.parameters.get("port").filter(|_| is_silent) {
            Some(port) => format!("{limit}; neither end printed anything: does a firewall drop port {port}?"),
            None => limit,
        }
    }

    /// Explains that nothing answered the client.
    fn explain_silence(&self) -> String {
        let port = self.test.parameters.get("port").map(String::as_str).unwrap_or_default();
        format!(
            "the server listens on TCP port {port}, and nothing answered the connection of the client for 15 s: does a \
             firewall drop it?"
        )
    }

    /// Judges a collective by the listing of the program and by NCCL's log.
    pub fn judge_nccl(&self, listing: &str, log: &str, expected: &ExpectedValue) -> TestVerdict {
        let (run, transport) = (parse_nccl_test(listing), parse_nccl_log(log));
        judge_collective(&run, &transport, self.test.required, (self.collective_value(), expected))
    }

    /// Returns the failure of a collective whose program ended with an error because values were wrong.
    pub fn find_wrong_values(&self, listing: &str) -> Option<TestVerdict> {
        match self.test.definition.output {
            TestOutput::Nccl => judge_wrong_values(&parse_nccl_test(listing)),
            _ => None,
        }
    }

    pub fn judge(
        &self,
        end: &ProgramEnd,
        mut outputs: Vec<UntrustedText>,
        expected: Result<ExpectedValue, String>,
    ) -> TestMeasurement {
        let done = &end.output;
        let stdout = String::from_utf8_lossy(&done.finished.stdout).into_owned();
        outputs.push(read_output(done));
        let limit = match self.test.launch.as_slurm() {
            Some(slurm) => format!(
                "the limit of {} s, after up to {} s for the nodes, stopped the program",
                self.test.definition.limit_s, slurm.start_within_s
            ),
            None => format!("the limit of {} s stopped the program", self.test.definition.limit_s),
        };
        match end.stopped_by {
            Some(StopCause::User) => return not_measured(STOPPED, outputs),
            Some(StopCause::Unanswered) => return not_measured(&self.explain_silence(), outputs),
            // One end may have said what failed, and the other one waited for it.
            Some(StopCause::Limit) if self.test.definition.output.has_faults() => {}
            // What it moved until then is measured.
            Some(StopCause::Limit) if self.test.definition.output.has_running_result() && has_ucx_row(&stdout) => {}
            Some(StopCause::Limit) => return not_measured(&self.explain_limit(limit, &outputs), outputs),
            None => {}
        }
        // A program that judges itself also exits with an error if it has found one.
        let has_failed = done.finished.status != 0 && end.stopped_by.is_none();
        if has_failed && !self.test.definition.output.has_own_verdict() {
            return match self.find_wrong_values(&stdout) {
                Some(verdict) => TestMeasurement { verdict, outputs, lost: Vec::new() },
                None => not_measured(&end.describe_failure(), outputs),
            };
        }
        let expected = match expected {
            Ok(expected) => expected,
            Err(why) => return not_measured(&why, outputs),
        };
        let failure = match end.stopped_by {
            Some(_) => Some(limit),
            None => (done.finished.status != 0).then(|| end.describe_failure()),
        };
        let client = format!("{stdout}{}", String::from_utf8_lossy(&done.finished.stderr));
        let server = outputs.first().map(UntrustedText::raw).unwrap_or_default();
        let ends = ConnectionEnds { client: &client, server, failure: failure.as_deref() };
        let count = |name: &str| self.test.parameters.get(name).and_then(|count| count.parse().ok());
        let size = self.test.parameters.get("size").and_then(|size| parse_size(size));
        let verdict = match (self.test.definition.output, size) {
            (TestOutput::PerftestBandwidth, Some(size)) => judge_bandwidth(&stdout, size, &expected),
            (TestOutput::Ucx, Some(size)) => judge_ucx(&stdout, size, &expected),
            (TestOutput::PerftestBandwidth | TestOutput::Ucx, None) => {
                TestVerdict::not_measured("the parameter `size` is not a number of bytes")
            }
            (TestOutput::Rping, _) => judge_rping(&ends, count("count")),
            (TestOutput::Pingpong, _) => judge_pingpong(&ends, count("iterations")),
            (TestOutput::PerftestLatency, _) => judge_latency(&stdout, &expected),
            (TestOutput::Nccl, _) => self.judge_nccl(&stdout, &stdout, &expected),
            (TestOutput::Dcgm, _) => match judge_dcgm(&stdout, &self.list_permitted_skips()) {
                TestVerdict::NotMeasured { reason } if done.finished.status != 0 => {
                    TestVerdict::not_measured(format!("{}: {reason}", end.describe_failure()))
                }
                verdict => verdict,
            },
            (TestOutput::GpuClocks, _) => {
                let below = self.test.parameters.get("below").and_then(|below| below.parse().ok());
                judge_gpu_clocks(&stdout, failure.as_deref(), below)
            }
            (TestOutput::Fio, _) => judge_fio(&stdout, &expected),
            (TestOutput::Sysbench, _) => judge_sysbench(&stdout, &expected),
            (TestOutput::Nvbandwidth, _) => match self.test.parameters.get("testcase") {
                Some(testcase) => judge_nvbandwidth(&stdout, testcase, &expected),
                None => TestVerdict::not_measured("the test has no parameter `testcase`"),
            },
            (TestOutput::Number, _) => judge_number(&stdout, &expected),
        };
        TestMeasurement { verdict, outputs, lost: Vec::new() }
    }
}

/// Returns the measurement of a host whose script has no result.
pub(super) fn lose_host(
    host: &TestHost<'_>,
    error: &TransportError,
    why: &str,
    outputs: Vec<UntrustedText>,
) -> TestMeasurement {
    let lost = error.is_unreachable().then(|| host.name.clone());
    TestMeasurement { lost: lost.into_iter().collect(), ..not_measured(why, outputs) }
}

/// Returns why a script of one of several hosts has no result.
pub(super) fn describe_loss(host: &TestHost<'_>, error: &TransportError) -> String {
    format!("`{}`: {}", host.name, describe_transport_error(error).raw())
}

/// Returns what a server printed, without the line of [`SERVER_FAILED`], which is on stderr.
fn read_server_output(done: &HostScriptOutput) -> UntrustedText {
    UntrustedText::new(shorten_middle(String::from_utf8_lossy(&done.finished.stdout).into_owned()))
}

/// Returns how a server failed that ended by itself.
fn describe_server_failure(done: &HostScriptOutput) -> Option<String> {
    if done.finished.status != SERVER_FAILED {
        return None;
    }
    let line = String::from_utf8_lossy(&done.finished.stderr);
    let (result, status) = split_result(&line);
    let how = match describe_signal((result, status)) {
        Some(signal) => signal,
        None if result.is_empty() => "how it ended is not known".to_owned(),
        None if result == RESULT_TIMEOUT => "the limit stopped it".to_owned(),
        None if result == "exit-code" => format!("exit status {status}"),
        None => format!("it ended with the result `{result}`"),
    };
    Some(join_reason(&how, &summarize_stderr(&done.finished.stdout)))
}

/// Returns what a program printed. The middle of a long output is left out: a report has the outputs of all programs.
fn read_output(done: &HostScriptOutput) -> UntrustedText {
    let text = [&done.finished.stdout, &done.finished.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat();
    UntrustedText::new(shorten_middle(text))
}

pub(super) fn shorten_middle(text: String) -> String {
    if text.len() <= 2 * KEPT_OUTPUT {
        return text;
    }
    let is_boundary = |at: &usize| text.is_char_boundary(*at);
    let begin = (0..=KEPT_OUTPUT).rev().find(is_boundary).unwrap_or_default();
    let end = (text.len() - KEPT_OUTPUT..=text.len()).find(is_boundary).unwrap_or(text.len());
    format!("{}\n[{} bytes left out]\n{}", &text[..begin], end - begin, &text[end..])
}

pub(super) fn not_measured(why: &str, outputs: Vec<UntrustedText>) -> TestMeasurement {
    TestMeasurement { verdict: TestVerdict::not_measured(why), outputs, lost: Vec::new() }
}

/// Returns how a program ended with an error. One that prints its errors to stdout says there why.
pub(super) fn describe_failure(done: &HostScriptOutput) -> String {
    let said = [&done.finished.stderr, &done.finished.stdout].map(|bytes| summarize_stderr(bytes));
    let why = said.into_iter().find(|said| !said.is_empty());
    join_reason(&format!("exit status {}", done.finished.status), &why.unwrap_or_default())
}

fn join_reason(how: &str, why: &str) -> String {
    match why {
        "" => how.to_owned(),
        why => format!("{how}: {why}"),
    }
}

impl ProgramEnd {
    /// Returns how the program ended with an error: its exit status, or the signal that ended it.
    pub fn describe_failure(&self) -> String {
        match &self.signal {
            Some(signal) => join_reason(signal, &summarize_stderr(&self.output.finished.stderr)),
            None => describe_failure(&self.output),
        }
    }
}

/// Splits the line with a unit's result and the status of its program.
fn split_result(line: &str) -> (&str, &str) {
    line.trim().split_once(' ').unwrap_or((line.trim(), ""))
}

/// Returns the signal that ended a unit's program, from the unit's result and the status that the service manager names.
fn describe_signal((result, status): (&str, &str)) -> Option<String> {
    let memory = if result == "oom-kill" { ": out of memory" } else { "" };
    RESULTS_BY_SIGNAL.contains(&result).then(|| format!("ended by signal {status}{memory}"))
}

/// Replaces `{name}` by the parameter `name`. Other text in braces belongs to the program.
///
/// # Errors
/// Names a value that forge supplies, but not for this test.
pub(super) fn fill_words(words: &[String], parameters: &BTreeMap<String, String>) -> Result<Vec<String>, String> {
    words.iter().map(|word| fill_word(word, parameters)).collect()
}

fn fill_word(word: &str, parameters: &BTreeMap<String, String>) -> Result<String, String> {
    let mut out = String::new();
    let mut copied = 0;
    for (range, name) in find_placeholders(word) {
        let Some(value) = parameters.get(name) else {
            match TestPrograms::SUPPLIED_NAMES.contains(&name) {
                true => return Err(format!("parameter `{name}` has no value")),
                false => continue,
            }
        };
        out.push_str(&word[copied..range.start]);
        out.push_str(value);
        copied = range.end;
    }
    out.push_str(&word[copied..]);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middle_of_long_output_is_left_out() {
        assert_eq!(shorten_middle("short".to_owned()), "short");
        let long = shorten_middle("ä".repeat(KEPT_OUTPUT * 2));
        assert!(long.contains("ä\n[131072 bytes left out]\nä"), "{}", long.len());
    }

    #[test]
    fn signal_that_ended_a_program_is_named() {
        assert_eq!(describe_signal(("signal", "KILL")), Some("ended by signal KILL".to_owned()));
        let memory = "ended by signal KILL: out of memory";
        assert_eq!(describe_signal(("oom-kill", "KILL")).as_deref(), Some(memory));
        assert_eq!((describe_signal(("exit-code", "255")), describe_signal(("", ""))), (None, None));
    }

    #[test]
    fn parameters_are_filled_in_once() {
        let parameters =
            BTreeMap::from([("size".to_owned(), "{port}".to_owned()), ("port".to_owned(), "1".to_owned())]);
        let fill = |word: &str| fill_word(word, &parameters);
        assert_eq!(fill("-s{size}:{port}"), Ok("-s{port}:1".to_owned()), "a value is not a template");
        assert_eq!(fill("{device}"), Err("parameter `device` has no value".to_owned()));
        for program in ["{size", "BEGIN{print $1}", "{print}", "${size}", "{ print a[1]; }{", "{a:{}}"] {
            assert_eq!(fill(program), Ok(program.to_owned()), "text of the program");
        }
        assert_eq!(fill("{print {size}}"), Ok("{print {port}}".to_owned()));
    }
}
