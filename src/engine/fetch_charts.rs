//! Fetches charts of repositories and registries for later runs.

use super::cluster_session;
use super::event::{Event, EventSender};
use super::fetch_report::{ArtifactFetchState, ArtifactReport, ArtifactUsers, ComputedDigest};
use super::run_options::RunOptions;
use crate::config::Project;
use crate::kube::{FetchedChart, KubeError};
use crate::model::UntrustedText;
use crate::object::{ChartQuery, ChartQuerySource};
use crate::probe::Probe;
use crate::resource::Resource;
use std::collections::BTreeMap;
use std::time::Instant;

/// Returns the chart that a resource fetches, if it does.
pub(super) fn find_chart_to_fetch(resource: &dyn Resource) -> Option<ChartQuery> {
    resource.probes().into_iter().find_map(|probe| {
        let Probe::Release(release) = probe else { return None };
        release
            .chart
            .filter(|chart| matches!(chart.from, ChartQuerySource::Repository { .. } | ChartQuerySource::Oci(_)))
    })
}

/// Fetches charts sequentially, each with one `helm` process.
pub(super) async fn fetch_charts(
    project: &Project,
    charts: BTreeMap<ChartQuery, ArtifactUsers>,
    options: &RunOptions,
    events: &EventSender,
) -> Vec<ArtifactReport> {
    let Some(access) = &project.kubernetes else { return Vec::new() };
    let helm = cluster_session::build_helm_options(options);
    let mut lines = Vec::new();
    for (chart, users) in charts {
        let began = Instant::now();
        let fetched = helm.fetch_chart(access, &chart).await.transpose();
        if let Some(Ok(FetchedChart { bytes, new: true, .. })) = &fetched {
            let (what, bytes) = (format_chart_name(&chart).into(), *bytes);
            // Sending fails only when the receiver is gone, shortly before the process ends.
            let _ = events.send(Event::Fetched { what, bytes, took: began.elapsed() });
        }
        lines.extend(fetched.map(|fetched| build_chart_report(&chart, users, fetched)));
    }
    lines
}

fn build_chart_report(
    chart: &ChartQuery,
    users: ArtifactUsers,
    fetched: Result<FetchedChart, KubeError>,
) -> ArtifactReport {
    let computed = fetched.as_ref().ok().filter(|_| chart.sha256.is_none()).map(|fetched| ComputedDigest {
        line: format!("sha256: \"{}\"", fetched.sha256),
        places: users.places.into_iter().collect(),
        source_url: None,
        // A repository may redirect to other servers, which helm does not report.
        protected: false,
        optional: true,
    });
    let had = match fetched {
        Ok(FetchedChart { sha256, bytes, new: true }) => ArtifactFetchState::New { sha256, bytes },
        Ok(FetchedChart { sha256, bytes, new: false }) => ArtifactFetchState::Here { sha256, bytes },
        Err(error) => {
            ArtifactFetchState::Failed { why: error.message.into(), hint: error.hint.map(UntrustedText::from) }
        }
    };
    let (steps, hosts) = (users.steps.into_iter().collect(), users.hosts.into_iter().collect());
    ArtifactReport { name: format_chart_name(chart), steps, hosts, had, computed }
}

fn format_chart_name(chart: &ChartQuery) -> String {
    let version = &chart.version;
    match &chart.from {
        ChartQuerySource::Repository { url, name } => format!("chart {name} {version} of {url}"),
        from => format!("chart {} {version}", from.name()),
    }
}
