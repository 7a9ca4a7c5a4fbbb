package migrationpolicy_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

func TestMain(m *testing.M) { acctest.Main(m) }

// pair are two hosts that no other test uses: policies hold for a whole fleet.
type pair struct {
	l        *lab.Lab
	from, to *lab.Host
	tf       *acctest.CLI
	name     string
}

func newPair(t *testing.T) *pair {
	t.Helper()
	l := lab.Open(t)
	return &pair{l: l, from: l.StartHost(t), to: l.StartHost(t), tf: acctest.NewCLI(t), name: lab.Name(t)}
}

// block is the provider's.
func (p *pair) block() string {
	block := acctest.Block{Lab: p.l}
	for _, h := range []*lab.Host{p.from, p.to} {
		block.Hosts = append(block.Hosts, acctest.Host{
			Of: h, Settings: fmt.Sprintf("migration_address = %q\nlabels = { name = %q }", h.Address, h.Name),
		})
	}
	return block.String()
}

// vm is one that two policies select; more are further attributes.
func (p *pair) vm(more string) string {
	return fmt.Sprintf(`resource "virtfleet_virtual_machine" "this" {
  name      = %q
  type      = "qemu"
  memory    = { size = "64Mi" }
  labels    = { tier = "prod", app = "web" }
  termination_grace_period = "0s"
  %s
}
`, p.name, more)
}

// policy is one that selects by labels.
func policy(name, labels, options string) string {
	return fmt.Sprintf("resource \"virtfleet_migration_policy\" %q {\n  name = %[1]q\n  selector = { labels = %s }\n  "+
		"migration_options = %s\n}\n", name, labels, options)
}

// apply applies a configuration, after which there is nothing to do.
func (p *pair) apply(t *testing.T, config string) string {
	t.Helper()
	p.tf.Config(t, p.block()+config)
	out := p.tf.Run(t, "apply")
	if left, empty := p.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", left)
	}
	return out
}

// metadata is what the host says of the VM's migrations.
func (p *pair) metadata(t *testing.T, host *lab.Host) string {
	t.Helper()
	return p.l.Virsh(t, host.Name, "metadata", p.name, "urn:virtfleet:1")
}

// TestAccMigrationPolicy_applied: of the policies that select a VM the most specific one tunes its migrations,
// really; what is written in the migration wins; and both are told.
func TestAccMigrationPolicy_applied(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.l.RemoveDomain(t, p.name)
	// Its guest writes faster than it can be copied at the policies' bandwidth. In half of that memory it could not even
	// begin to: there is no room for what it writes to.
	machine := strings.Replace(p.vm(fmt.Sprintf(`kernel = { path = %q, initrd = %q, cmdline = "%s dirty=16" }
		guest_agent = { enabled = true }
		wait_for    = { guest_agent = true }
		placement   = { host_labels = { name = %q } }`, p.l.KernelPath(), p.l.InitrdPath(), lab.GuestCmdline, p.from.Name)),
		"64Mi", "128Mi", 1)
	// What is left when the guest is paused takes 7 s, and may take 30 s: as long as the migration had before.
	others := policy("all", "null", "{ allow_auto_converge = true }") +
		policy("prod", `{ tier = "prod" }`,
			`{ bandwidth = "3Mi", completion_timeout_per_gib = "30s", allow_workload_disruption = true }`)
	web := policy("web", `{ tier = "prod", app = "web" }`,
		`{ bandwidth = "3Mi", completion_timeout_per_gib = "2s", allow_post_copy = true, stall_detector = true }`)
	candidates := "data \"virtfleet_migration_candidates\" \"this\" {\n  " +
		"virtual_machine_id = virtfleet_virtual_machine.this.id\n}\n" +
		"output \"tuned\" {\n  value = join(\" \", [data.virtfleet_migration_candidates.this.migration_policy_name,\n  " +
		"data.virtfleet_migration_candidates.this.migration_configuration.bandwidth])\n}\n"
	migration := func(attributes string) string {
		return "resource \"virtfleet_migration\" \"this\" {\n  virtual_machine_id = virtfleet_virtual_machine.this.id\n  " +
			attributes + "\n}\n"
	}
	to := func(h *lab.Host, more string) string {
		return migration(fmt.Sprintf("target_host = %q\n  %s", h.Name, more))
	}

	p.apply(t, machine+others+web)
	if out := p.apply(t, machine+others+web+candidates); !strings.Contains(out, `tuned = "web 3Mi"`) {
		t.Errorf("candidates: %s", out)
	}

	// All is allowed, and the stall detector hands no guest over whose rest would take longer than there is: as it is
	// switched off for the next one, that one ends in post-copy.
	p.tf.Config(t, p.block()+machine+others+web+to(p.to, ""))
	if out := p.tf.Fail(t, "apply"); !strings.Contains(out, "took too long") {
		t.Errorf("apply: %s", out)
	}
	state, _ := p.tf.State(t, "virtfleet_migration.this")
	acctest.CompareValues(t, state, map[string]any{
		"phase": "Failed", "migration_state.mode": "PreCopy", "migration_state.abort_status": "Succeeded",
		"migration_state.migration_policy_name":                             "web",
		"migration_state.migration_configuration.stall_detector":            true,
		"migration_state.migration_configuration.allow_post_copy":           true,
		"migration_state.migration_configuration.allow_workload_disruption": true,
	})
	if text := p.metadata(t, p.from); !strings.Contains(text, `"StallDetector":true`) {
		t.Errorf("the VM's record: %s", text)
	}

	p.apply(t, machine+others+web+to(p.to, "migration_options = { stall_detector = false }"))
	state, _ = p.tf.State(t, "virtfleet_migration.this")
	acctest.CompareValues(t, state, map[string]any{
		"phase": "Succeeded", "migration_state.mode": "PostCopy", "migration_state.migration_policy_name": "web",
		"migration_state.migration_configuration.allow_post_copy":            true,
		"migration_state.migration_configuration.allow_workload_disruption":  true,
		"migration_state.migration_configuration.allow_auto_converge":        false,
		"migration_state.migration_configuration.completion_timeout_per_gib": "2s",
		"migration_state.migration_configuration.progress_timeout":           "2m30s",
		"migration_state.migration_configuration.stall_detector":             false,
	})
	if text := p.metadata(t, p.to); !strings.Contains(text, `policy="web"`) {
		t.Errorf("the VM's record: %s", text)
	}

	// What is written in the migration wins, attribute by attribute: without a limit it converges.
	own := `migration_options = { bandwidth = "8Gi", completion_timeout_per_gib = "0s", stall_detector = false }`
	p.apply(t, machine+others+web+to(p.from, own))
	state, _ = p.tf.State(t, "virtfleet_migration.this")
	acctest.CompareValues(t, state, map[string]any{
		"migration_state.mode": "PreCopy", "migration_state.migration_policy_name": "web",
		"migration_state.migration_configuration.bandwidth":       "8Gi",
		"migration_state.migration_configuration.allow_post_copy": true,
	})

	// Without the most specific one the next is the one: no post-copy, and the guest is paused instead.
	p.apply(t, machine+others+to(p.to, ""))
	state, _ = p.tf.State(t, "virtfleet_migration.this")
	acctest.CompareValues(t, state, map[string]any{
		"phase": "Succeeded", "migration_state.mode": "Paused", "migration_state.migration_policy_name": "prod",
		"migration_state.migration_configuration.bandwidth": "3Mi",
	})
	processed, _ := acctest.ValueAt(state, "migration_state.statistics.data_processed_bytes").(float64)
	elapsed, _ := acctest.ValueAt(state, "migration_state.statistics.elapsed_seconds").(float64)
	if rate := processed / elapsed; processed < 16<<20 || rate > 1.5*(4<<20) {
		t.Errorf("%.0f bytes were copied in %.1f s, at %.0f/s; want at most 4 MiB/s", processed, elapsed, rate)
	}

	// A policy that is changed afterwards tells nothing else about a migration that was.
	p.apply(t, machine+strings.ReplaceAll(others, "3Mi", "2Mi")+to(p.to, ""))
	if text := p.metadata(t, p.to); !strings.Contains(text, `policy="prod"`) || strings.Contains(text, "2097152") {
		t.Errorf("the VM's record: %s", text)
	}
	p.tf.Run(t, "destroy")
	for _, h := range []*lab.Host{p.from, p.to} {
		if out := p.l.Secrets(t, h.Name); strings.Contains(out, "virtfleet:") {
			t.Errorf("left on host %s: %s", h.Name, out)
		}
	}
}

// TestAccMigrationPolicy_everyMove: a policy tunes a change of host, where what the VM itself says wins; and the
// drain of a host, where what the eviction policy says wins. The plan of the drain names it.
func TestAccMigrationPolicy_everyMove(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.l.RemoveDomain(t, p.name)
	// One that fits all is as good where there is no other.
	policies := "resource \"virtfleet_migration_policy\" \"all\" {\n  name = \"everything\"\n  " +
		"migration_options = { bandwidth = \"512Mi\", max_downtime = \"700ms\" }\n}\n"
	depends := "depends_on = [virtfleet_migration_policy.all]\n"
	pin := func(h *lab.Host) string { return fmt.Sprintf("host = %q\n", h.Name) }
	records := func(h *lab.Host, parts ...string) {
		t.Helper()
		text := p.metadata(t, h)
		for _, part := range append(parts, `policy="everything"`, `"MaxDowntime":700000000`) {
			if !strings.Contains(text, part) {
				t.Errorf("%s isn't in %s", part, text)
			}
		}
	}

	p.apply(t, policies+p.vm(depends+pin(p.from)))
	p.apply(t, policies+p.vm(depends+pin(p.to)))
	records(p.to, `"Bandwidth":536870912`)
	p.apply(t, policies+p.vm(depends+pin(p.from)+`migration_options = { bandwidth = "256Mi" }`))
	records(p.from, `"Bandwidth":268435456`)

	free := policies + p.vm(depends) + "resource \"virtfleet_eviction_policy\" \"all\" {\n  " +
		"strategy = \"LiveMigrate\"\n  migration_options = { bandwidth = \"128Mi\" }\n}\n"
	p.apply(t, free)
	maintenance := fmt.Sprintf("resource \"virtfleet_host_maintenance\" \"this\" {\n  host = %q\n  "+
		"depends_on = [virtfleet_virtual_machine.this]\n}\n"+
		"data \"virtfleet_evacuation_plan\" \"this\" {\n  host = %[1]q\n}\n"+
		"output \"tuned\" {\n  value = one([for s in data.virtfleet_evacuation_plan.this.steps : "+
		"s.migration_policy_name])\n}\n", p.from.Name)
	p.tf.Config(t, p.block()+free+maintenance)
	if out := p.tf.Run(t, "plan"); !strings.Contains(out, "tuned by migration policy everything") {
		t.Errorf("plan: %s", out)
	}
	if out := p.apply(t, free+maintenance); !strings.Contains(out, `tuned = "everything"`) {
		t.Errorf("apply: %s", out)
	}
	records(p.to, `"Bandwidth":134217728`)
	p.tf.Run(t, "destroy")
}

func TestMigrationPolicy_refused(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	step := func(policy, want string) resource.TestStep {
		return resource.TestStep{
			Config: acctest.Local("") + `resource "virtfleet_migration_policy" "this" {
` + policy + "\n}",
			ExpectError: regexp.MustCompile(want), PlanOnly: true,
		}
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			step(`name = "x"`, "migration_options"),
			step("migration_options = {}", "sets no option"),
			step(`migration_options = { transport = "carrier-pigeon" }`, "ssh_relay"),
			step(`migration_options = { max_downtime = "0s" }`, "between 1ms"),
			step(`migration_options = { bandwidth = "much" }`, "bandwidth"),
			step("migration_options = { bandwidth = \"1Gi\" }\nselector = { labels = {} }", "at least 1"),
			step("migration_options = { bandwidth = \"1Gi\" }\nselector = { hosts = [] }", "at least 1"),
			step("migration_options = { bandwidth = \"1Gi\" }\nname = \"\"", "at least 1"),
		},
	})
}
