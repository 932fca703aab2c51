//! The kind `helm_release` from the user's point of view: plan, apply, verify and drift, with both major versions of
//! Helm.

use super::helm::{CHART, copy, serve_packed};
use super::support::{Cluster, Helm, Site, kubectl};
use crate::support::{Output, limited};

/// A site whose recipe creates a namespace and a release in it.
struct Project {
    site: Site,
    name: String,
    four: bool,
}

/// Runs a test with each major version. Returns whether there is an API to run it on.
fn both(name: &str, test: impl Fn(&Project)) -> bool {
    let Some(api) = Cluster::require() else { return false };
    for (helm, major) in [(Helm::Three, 3), (Helm::Four, 4)] {
        eprintln!("with helm {major}");
        test(&Project::new(api, helm, &format!("{name}{major}"), major == 4));
    }
    true
}

impl Project {
    fn new(api: &Cluster, helm: Helm, name: &str, four: bool) -> Project {
        let site = Site::new(api, &api.kubeconfig, "test", helm);
        copy(CHART.as_ref(), &site.path("recipes/charts/tiny"), name);
        let inventory = std::fs::read_to_string(site.path("inventory.yaml")).expect("an inventory");
        // The cluster's name identifies its lock and records.
        let inventory = inventory.replace("cluster: site", &format!("cluster: {name}"));
        site.write(
            "inventory.yaml",
            &format!("{inventory}apply: [{{ recipe: app, on: all, with: {{ password: {{ file: secret }} }} }}]\n"),
        );
        site.write("secret", "hunter2-of-the-test\n");
        let project = Project { site, name: name.to_owned(), four };
        project.declare("values: { replicas: 2 }");
        project
    }

    /// Declares the release with these fields.
    fn declare(&self, fields: &str) {
        self.declare_version("0.1.0", fields);
    }

    fn declare_version(&self, version: &str, fields: &str) {
        let name = &self.name;
        self.site.write(
            "recipes/app.yaml",
            &format!(
                "recipe: app\nsummary: A chart\nparams: {{ password: {{ type: secret }} }}\nsteps:\n  \
                 - name: place\n    namespace: {{ name: {name} }}\n  \
                 - name: chart\n    helm_release:\n      {{ name: r, namespace: {name}, path: charts/tiny, version: {version}, wait: false, hooks: false, {fields} }}\n"
            ),
        );
    }

    fn forge(&self, args: &[&str]) -> Output {
        self.site.forge(&[args, &["inventory.yaml"]].concat())
    }

    /// Applies, which must succeed.
    fn must_apply(&self) {
        let out = self.apply();
        assert_eq!(out.code, 0, "{out}");
    }

    fn apply(&self) -> Output {
        self.forge(&["apply", "--yes"])
    }

    fn kubectl(&self, args: &[&str]) -> String {
        kubectl(&[&["-n", &self.name], args].concat())
    }

    fn revisions(&self) -> String {
        self.kubectl(&[
            "get",
            "secret",
            "-l",
            "owner=helm",
            "-o",
            "jsonpath={range .items[*]}{.metadata.labels.version}={.metadata.labels.status} {end}",
        ])
    }

    /// Checks that a plan and a saved plan list the images for a mirror before anything is installed.
    fn lists_its_images(&self) {
        let images = "forge.local/tiny:1\n";
        let plan = self.forge(&["plan", "--images", "-o", "plan.json"]);
        assert_eq!((plan.code, plan.stdout.as_str()), (0, images), "{plan}");
        let kept = self.site.forge(&["show", "plan.json", "--images"]);
        assert_eq!((kept.code, kept.stdout.as_str()), (0, images), "{kept}");
    }

    /// Runs drift as an account that may read everything of the release, and the Secrets of its namespace or not, and
    /// nothing else.
    fn drift_as_reader(&self, secrets: bool) -> Output {
        let name = format!("{}-reads{}", self.name, if secrets { "-all" } else { "" });
        let rules = |kind: &str, resources: &str| {
            let meta = format!("metadata: {{ name: {name}, namespace: {} }}", self.name);
            format!(
                "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\n{meta}\nrules:\n  \
                 - {{ apiGroups: ['*'], resources: [{resources}], verbs: [get, list] }}\n---\n\
                 apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}Binding\n{meta}\n\
                 roleRef: {{ apiGroup: rbac.authorization.k8s.io, kind: {kind}, name: {name} }}\n\
                 subjects: [{{ kind: User, name: {name}, apiGroup: rbac.authorization.k8s.io }}]\n---\n"
            )
        };
        let mut role = rules(
            "ClusterRole",
            "namespaces, configmaps, services, serviceaccounts, deployments, jobs, pods, gadgets, \
             customresourcedefinitions, roles, rolebindings, clusterroles, clusterrolebindings",
        );
        if secrets {
            role.push_str(&rules("Role", "secrets"));
        }
        self.site.write("role.yaml", &role);
        kubectl(&["apply", "-f", self.site.path("role.yaml").to_str().expect("a path")]);
        let inventory = std::fs::read_to_string(self.site.path("inventory.yaml")).expect("an inventory");
        let (_, rest) = inventory.split_once("kubeconfig: ").expect("a kubeconfig");
        let (path, _) = rest.split_once(',').expect("a path");
        let own = std::fs::read_to_string(path).expect("a kubeconfig");
        self.site.write("reader.kubeconfig", &own.replace("user: { client-", &format!("user: {{ as: {name}, client-")));
        self.site.write("reader.yaml", &inventory.replace(path, "reader.kubeconfig"));
        self.site.forge(&["drift", "reader.yaml"])
    }

    fn gadgets(&self) -> String {
        format!("gadgets.{}.forge.test", self.name)
    }
}

fn has(out: &Output, text: &str) {
    assert!(out.stdout.contains(text), "no `{text}` in {out}");
}

#[test]
fn release_is_installed_once_and_upgraded_on_value_change() {
    both("whole", |project| {
        let plan = project.forge(&["plan"]);
        has(&plan, &format!("release `{}/r` does not exist", project.name));
        has(&plan, &format!("CustomResourceDefinition gadgets.{}.forge.test", project.name));
        project.lists_its_images();
        let out = project.apply();
        assert_eq!(out.code, 0, "{out}");
        let again = project.apply();
        assert_eq!(again.code, 0, "{again}");
        has(&project.forge(&["plan", "-v"]), "0.1.0 is deployed, live objects match");
        assert_eq!(project.revisions(), "1=deployed ");
        // Another value is reported field by field, and is one revision.
        project.declare("values: { replicas: 3 }");
        let plan = project.forge(&["plan"]);
        has(&plan, "values.replicas");
        has(&plan, "Deployment r spec.replicas");
        let out = project.apply();
        assert_eq!((out.code, project.revisions().as_str()), (0, "1=superseded 2=deployed "), "{out}");
    });
}

#[test]
fn edited_custom_field_is_drift_with_its_manager() {
    let shown = both("edited", |project| {
        project.must_apply();
        assert_eq!((project.apply().code, project.revisions().as_str()), (0, "1=deployed "));
        project.kubectl(&[
            "patch",
            &project.gadgets(),
            "r",
            "--type=merge",
            "-p",
            r#"{"spec":{"driver":{"enabled":true},"more":1}}"#,
        ]);
        let drift = project.forge(&["drift"]);
        has(&drift, "Gadget r spec.driver.enabled");
        has(&drift, "kubectl-patch");
        has(&drift, "will not be removed by an upgrade");
        let read = project.drift_as_reader(true);
        assert_eq!(read.code, 2, "{read}");
        has(&read, "Gadget r spec.driver.enabled");
        has(&read, "kubectl-patch");
        has(&read, "compared without a dry run");
        let blind = project.drift_as_reader(false);
        assert_eq!(blind.code, 9, "{blind}");
        has(&blind, "may not");
        let out = project.apply();
        assert_eq!(out.code, 0, "{out}");
        assert_eq!(project.revisions(), "1=deployed ");
        assert_eq!(
            project.kubectl(&["get", &project.gadgets(), "r", "-o", "jsonpath={.spec}"]),
            r#"{"driver":{"enabled":false},"greeting":"hello"}"#
        );
        project.forge(&["drift"]).must_exit(0);
        let read = project.drift_as_reader(true);
        assert_eq!(read.code, 0, "{read}");
    });
    if shown {
        crate::proof::mark_api("helm_release");
    }
}

#[test]
fn conflicting_field_is_reported_and_taken_over() {
    both("taken", |project| {
        project.must_apply();
        project.kubectl(&["set", "image", "deployment/r", "main=forge.local/other:2"]);
        project.declare("values: { replicas: 2, image: 'forge.local/tiny:3' }");
        let plan = project.forge(&["plan"]);
        has(&plan, "kubectl-set");
        assert_eq!(plan.stdout.contains("the upgrade takes over 1 field of kubectl-set"), project.four, "{plan}");
        let out = project.apply();
        assert_eq!((out.code, project.revisions().as_str()), (0, "1=superseded 2=deployed "), "{out}");
    });
}

#[test]
fn secret_value_is_never_shown() {
    both("secret", |project| {
        project.declare("values: { password: '{{ params.password }}' }");
        let plan = project.forge(&["plan", "--commands"]);
        let apply = project.apply();
        assert_eq!(apply.code, 0, "{apply}");
        let held = project.kubectl(&["get", "secret", "r-login", "-o", "jsonpath={.data.password}"]);
        assert_eq!(held, "aHVudGVyMi1vZi10aGUtdGVzdA==");
        project.site.write("secret", "another-of-the-test\n");
        let other = project.forge(&["plan", "--format", "json"]);
        has(&other, "values.password");
        for out in [plan, apply, other, project.forge(&["drift"])] {
            let text = out.to_string();
            for secret in ["hunter2-of-the-test", "another-of-the-test", "aHVudGVyMi1vZi10aGUtdGVzdA"] {
                assert!(!text.contains(secret), "{text}");
            }
        }
        project.must_apply();
        assert_eq!(project.revisions(), "1=superseded 2=deployed ");
    });
}

#[test]
fn release_with_an_unpinned_image_is_rejected() {
    both("alone", |project| {
        project.declare("values: { image: 'forge.local/tiny:latest' }");
        let out = project.apply();
        has(&out, "an image without a tag or digest, or with tag `latest`: `forge.local/tiny:latest`");
        assert_ne!(out.code, 0);
        assert_eq!(project.revisions(), "");
    });
}

/// Gives the chart's definition a schema without unknown fields, with these ones in `spec`.
fn define_fields(project: &Project, fields: &str) {
    let path = project.site.path("recipes/charts/tiny/crds/gadgets.yaml");
    let text = std::fs::read_to_string(&path).expect("a definition");
    let (before, after) = text.split_once("            spec:\n").expect("a schema");
    let (_, after) = after.split_once("            status:").expect("a schema");
    let fields: String =
        fields.split(' ').map(|field| format!("                {field}: {{ type: string }}\n")).collect();
    let driver = "                driver: { type: object, properties: { enabled: { type: boolean } } }\n";
    let spec = format!("            spec:\n              type: object\n              properties:\n{driver}{fields}");
    std::fs::write(path, format!("{before}{spec}            status:{after}")).expect("written");
}

/// Replaces text in a file of the chart.
fn edit_chart(project: &Project, file: &str, from: &str, to: &str) {
    let path = project.site.path(&format!("recipes/charts/tiny/{file}"));
    let text = std::fs::read_to_string(&path).expect("a file");
    assert!(text.contains(from), "{text}");
    std::fs::write(path, text.replace(from, to)).expect("written");
}

/// The object of the new version has a field that the old definition lacks, and the hook that would renew the definition
/// never ends: the release remembers the new object, and the API knows only the old definition.
#[test]
fn failed_upgrade_with_a_new_definition_is_planned_and_finished() {
    both("renewed", |project| {
        define_fields(project, "greeting");
        project.must_apply();
        define_fields(project, "greeting mode");
        edit_chart(
            project,
            "templates/objects.yaml",
            "  driver: { enabled: false }\n",
            "  driver: { enabled: false }\n  mode: fast\n",
        );
        edit_chart(project, "Chart.yaml", "version: 0.1.0", "version: 0.2.0");
        let api = Cluster::require().expect("an API");
        let helm = api.helm(if project.four { Helm::Four } else { Helm::Three }).expect("a helm");
        let mut theirs = limited(helm.to_str().expect("text"));
        theirs.args(["upgrade", "r", "--disable-openapi-validation"]).arg(project.site.path("recipes/charts/tiny"));
        theirs.args(["--reuse-values", "--set", "hook=true", "--timeout", "3s", "-n", &project.name]);
        let out = Output::of(theirs.arg("--kubeconfig").arg(&api.kubeconfig).args(["--kube-context", "test"]), b"");
        assert!(!out.ok(), "{out}");
        assert_eq!(project.revisions(), "1=deployed 2=failed ");

        project.declare_version("0.2.0", "values: { replicas: 2 }");
        definition_of_another_release_is_kept(project);
        let plan = project.forge(&["plan", "--detailed-exitcode"]);
        assert_eq!(plan.code, 2, "{plan}");
        has(&plan, &format!("CustomResourceDefinition {}", project.gadgets()));
        has(&plan, "failed");
        assert!(!plan.stdout.contains("unknown"), "{plan}");
        project.must_apply();
        let mode = project.kubectl(&["get", &project.gadgets(), "r", "-o", "jsonpath={.spec.mode}"]);
        assert_eq!((mode.as_str(), project.revisions().as_str()), ("fast", "1=superseded 2=failed 3=deployed "));
        let again = project.forge(&["plan", "--detailed-exitcode"]);
        assert_eq!(again.code, 0, "{again}");
    });
}

/// Checks that a plan renews no definition that another release owns, and says why it cannot compare its objects then.
fn definition_of_another_release_is_kept(project: &Project) {
    let definition = format!("crd/{}", project.gadgets());
    let label = |value: &str| project.kubectl(&["label", &definition, value]);
    let annotate = |name: &str, space: &str| project.kubectl(&["annotate", &definition, name, space]);
    label("app.kubernetes.io/managed-by=Helm");
    annotate("meta.helm.sh/release-name=other", "meta.helm.sh/release-namespace=other");
    let plan = project.forge(&["plan"]);
    assert!(!plan.stdout.contains("of another version of the chart"), "{plan}");
    has(&plan, "cannot compare Gadget r");
    label("app.kubernetes.io/managed-by-");
    annotate("meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-");
}

#[test]
fn uninstall_plan_lists_the_crds_that_remain() {
    both("removed", |project| {
        project.must_apply();
        let recipe = std::fs::read_to_string(project.site.path("recipes/app.yaml")).expect("a recipe");
        project.site.write(
            "recipes/app.yaml",
            &recipe.replace("- name: chart\n", "- name: chart\n    when: \"false\"\n    otherwise: absent\n"),
        );
        let stays = format!("uninstalling keeps the CustomResourceDefinitions `{}`", project.gadgets());
        has(&project.forge(&["plan"]), &stays);
        let out = project.apply();
        assert_eq!((out.code, project.revisions().as_str()), (0, ""), "{out}");
        kubectl(&["get", "crd", &project.gadgets()]);
        has(&project.forge(&["plan", "-v"]), &format!("release `{}/r` does not exist", project.name));
    });
}

#[test]
fn fetch_caches_the_chart_and_prints_its_missing_sha256() {
    both("fetched", |project| {
        let (name, site) = (&project.name, &project.site);
        let server = serve_packed(&site.path("bin/helm"), &site.path("recipes/charts/tiny"), &site.path("repo"));
        let url = server.url("");
        let declare = |digest: &str| {
            site.write(
                "recipes/app.yaml",
                &format!(
                    "recipe: app\nsummary: A chart\nparams: {{ password: {{ type: secret }} }}\nsteps:\n  - name: chart\n    \
                     helm_release:\n      chart: {name}\n      repository: {url}\n      version: 0.1.0\n      name: r\n      \
                     namespace: {name}\n{digest}"
                ),
            );
        };
        let packed = site.path(&format!("repo/{name}-0.1.0.tgz")).display().to_string();
        let sum = Output::of(limited("sha256sum").arg(packed), b"").stdout;
        let digest = sum.split(' ').next().expect("a digest");

        declare("");
        let first = project.forge(&["fetch", "-q"]);
        assert_eq!(first.code, 0, "{first}");
        has(&first, &format!("fetched chart {name} 0.1.0 of {url} ("));
        let advice = "computed from the `helm pull` output; compare it with the publisher's digest, then paste:";
        has(
            &first,
            &format!("  {advice}\n    sha256: \"{digest}\"\n  next to recipes/app.yaml:7:14\n1 artifact available"),
        );
        let asked = server.asked().len();

        declare(&format!("      sha256: \"{digest}\"\n"));
        let kept = project.forge(&["fetch", "--offline", "-q"]);
        assert!(kept.code == 0 && !kept.stdout.contains("paste"), "{kept}");
        has(&kept, &format!("cached chart {name} 0.1.0 of {url} ("));
        declare(&format!("      sha256: \"{}\"\n", "0".repeat(64)));
        let other = project.forge(&["fetch", "-q"]);
        assert_eq!((other.code, server.asked().len()), (69, asked), "{other}");
        has(&other, &format!("failed the chart `{name}-0.1.0.tgz` has the sha256 {digest}, declared is 000"));
    });
}
