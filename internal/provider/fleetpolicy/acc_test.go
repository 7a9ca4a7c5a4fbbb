package fleetpolicy_test

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

func TestMain(m *testing.M) { acctest.Main(m) }

// kind is one kind of policy, and what policies of it may say.
type kind struct {
	// noun is what errors call one.
	noun string
	// least is little to say, most is much; other is another thing to say.
	least, most, other string
	// Each is in the record of a host that has the policy.
	inLeast, inMost, inOther string
	// damages are what is in the record with most, and another value instead.
	damages map[string]string
}

var kinds = map[string]kind{
	"virtfleet_eviction_policy": {
		noun:  "eviction policy",
		least: `strategy = "LiveMigrate"`, inLeast: `"strategy":"LiveMigrate"`,
		most: `strategy = "LiveMigrate"
			fallback = "Save"
			on_cancel = "finish"
			priority = 100
			timeout  = "120s"
			migration_options = { bandwidth = "1Gi", completion_timeout_per_gib = "120s" }`,
		inMost: `"fallback":"Save","on_cancel":"finish"`,
		damages: map[string]string{
			`"fallback":"Save"`: `"fallback":"Block"`, `"on_cancel":"finish"`: `"on_cancel":"abort"`,
			`,"on_cancel":"finish"`: "",
		},
		other: `strategy = "None"`, inOther: `"strategy":"None"`,
	},
	"virtfleet_migration_policy": {
		noun:  "migration policy",
		least: `migration_options = { bandwidth = "1Gi" }`, inLeast: `"Bandwidth":1073741824`,
		most: `migration_options = {
				bandwidth = "1Gi", completion_timeout_per_gib = "120s", allow_post_copy = true, transport = "ssh_relay"
			}`,
		inMost: `"AllowPostCopy":true`, damages: map[string]string{`"AllowPostCopy":true`: `"AllowPostCopy":false`},
		other: `migration_options = { max_downtime = "500ms" }`, inOther: `"MaxDowntime":500000000`,
	},
}

// each runs a test for every kind.
func each(t *testing.T, test func(t *testing.T, typeName string, k kind)) {
	t.Helper()
	for typeName, k := range kinds {
		t.Run(typeName, func(t *testing.T) {
			t.Parallel()
			test(t, typeName, k)
		})
	}
}

// secret is the UUID of the host's record, "" without one.
func secret(t *testing.T, l *lab.Lab, host string) string {
	t.Helper()
	for _, line := range strings.Split(l.Virsh(t, host, "secret-list"), "\n") {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == "virtfleet:host-record" {
			return fields[0]
		}
	}
	return ""
}

// record is the host's record as text.
func record(t *testing.T, l *lab.Lab, host string) string {
	t.Helper()
	uuid := secret(t, l, host)
	if uuid == "" {
		return ""
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(l.Virsh(t, host, "secret-get-value", uuid)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// recorded checks the records of hosts for something that they all say.
func recorded(t *testing.T, l *lab.Lab, want string, hosts ...*lab.Host) resource.TestCheckFunc {
	t.Helper()
	return func(*terraform.State) error {
		for _, host := range hosts {
			if have := record(t, l, host.Name); !strings.Contains(have, want) {
				return fmt.Errorf("host %s has %s; want %s", host.Name, have, want)
			}
		}
		return nil
	}
}

// everywhere says that no host lacks the policy.
func everywhere(address string) []statecheck.StateCheck {
	return []statecheck.StateCheck{
		statecheck.ExpectKnownValue(address, tfjsonpath.New("stale_hosts"), knownvalue.ListExact(nil)),
	}
}

// TestAccPolicy: a policy is on every host, is repaired where it is missing or another one, follows the fleet to new
// hosts, and leaves nothing behind.
func TestAccPolicy(t *testing.T) {
	t.Parallel()
	each(t, testLife)
}

func testLife(t *testing.T, typeName string, k kind) {
	t.Helper()
	l := lab.Open(t)
	address := typeName + ".this"
	// Policies hold for a whole fleet, so this one is of the test's own.
	first, second := l.StartHost(t), l.StartHost(t)
	block := func(hosts ...acctest.Host) string { return acctest.Block{Lab: l, Hosts: hosts}.String() }
	both := block(acctest.Host{Of: first}, acctest.Host{Of: second})
	silent := block(acctest.Host{Of: first}, acctest.Host{Of: second},
		acctest.Host{Name: "silent", URI: "qemu+ssh://root@" + first.Address + ":9/system"})
	policy := func(says string) string {
		return fmt.Sprintf(`resource %q "this" {
			name     = "prod"
			selector = { labels = { tier = "prod" }, names = ["web", "db"] }
			%s
		}`, typeName, says)
	}
	reordered := func(config string) string { return strings.Replace(config, `"web", "db"`, `"db", "web"`, 1) }
	// step applies something that is to be on hosts afterwards.
	step := func(config string, a plancheck.ResourceActionType, in string, hosts ...*lab.Host) resource.TestStep {
		return resource.TestStep{
			Config: config, ConfigPlanChecks: acctest.Action(address, a), ConfigStateChecks: everywhere(address),
			Check: recorded(t, l, in, hosts...),
		}
	}
	before := func(s resource.TestStep, do func()) resource.TestStep {
		s.PreConfig = do
		return s
	}
	update := plancheck.ResourceActionUpdate
	var repairs []resource.TestStep
	for is, instead := range k.damages {
		repairs = append(repairs, before(step(both+policy(k.most), update, k.inMost, first, second), func() {
			changed := strings.ReplaceAll(record(t, l, first.Name), is, instead)
			l.Virsh(t, first.Name, "secret-set-value", secret(t, l, first.Name),
				base64.StdEncoding.EncodeToString([]byte(changed)))
		}))
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy: func(*terraform.State) error {
			for _, h := range []*lab.Host{first, second} {
				if left := record(t, l, h.Name); left != "" {
					return fmt.Errorf("left on host %s: %s", h.Name, left)
				}
			}
			return nil
		},
		Steps: slices.Concat([]resource.TestStep{
			step(block(acctest.Host{Of: first})+policy(k.least), plancheck.ResourceActionCreate, k.inLeast, first),
			// A host that is new in the fleet has no copy yet.
			step(both+policy(k.least), update, `"name":"prod"`, first, second),
			step(both+policy(k.most), update, k.inMost, first, second),
			// Written otherwise it is no change.
			step(both+policy(strings.ReplaceAll(k.most, "120s", "2m0s")), update, k.inMost, first, second),
			{ResourceName: address, ImportState: true, ImportStateId: "prod", ImportStateVerify: true},
			before(step(both+policy(k.most), update, k.inMost, first, second), func() {
				l.Virsh(t, second.Name, "secret-undefine", secret(t, l, second.Name))
			}),
		}, repairs, []resource.TestStep{
			// A host that doesn't answer is no reason to do anything, and one to fail a change. Nor is another order.
			{
				Config:           silent + reordered(policy(k.most)),
				ConfigPlanChecks: acctest.Action(address, plancheck.ResourceActionNoop),
			},
			{
				Config:      silent + policy(k.other),
				ExpectError: regexp.MustCompile(`(?s)Unable to update ` + k.noun + ` "prod".*silent`),
			},
			{
				Config: both + policy(k.other), ConfigStateChecks: everywhere(address),
				Check: recorded(t, l, k.inOther, first, second),
			},
			// What is destroyed last is the policy that was created before: it stays, as it does under another address.
			{
				Taint: []string{address}, Config: both + policy(k.other+"\nlifecycle { create_before_destroy = true }"),
				ConfigPlanChecks:  acctest.Action(address, plancheck.ResourceActionCreateBeforeDestroy),
				ConfigStateChecks: everywhere(address), Check: recorded(t, l, k.inOther, first, second),
			},
			{
				Config:            both + strings.Replace(policy(k.other), `"this"`, `"renamed"`, 1),
				ConfigPlanChecks:  acctest.Action(typeName+".renamed", plancheck.ResourceActionCreate),
				ConfigStateChecks: everywhere(typeName + ".renamed"), Check: recorded(t, l, k.inOther, first, second),
			},
			{
				Config: both + policy(k.other) + fmt.Sprintf(`
					resource %q "other" {
						name = "prod"
						%s
					}`, typeName, k.least),
				ExpectError: regexp.MustCompile(`(?si)` + k.noun + `\s+"prod"\s+exists already.*terraform\s+import`),
			},
		}),
	})
}

// TestAccPolicy_whileAHostIsFenced: a policy that is destroyed while a host is given up stays so when the host is back:
// a new one may have its name, and replaces the copy that was left there. If the given up host has the only copy, the
// policy is created again on the others, and there is one when the host is back.
func TestAccPolicy_whileAHostIsFenced(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, typeName string, k kind) {
		t.Helper()
		l := lab.Open(t)
		here, away := l.StartHost(t), l.StartHost(t)
		block := func(settings string) string {
			return acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: here}, {Of: away, Settings: settings}}}.String()
		}
		policy := func(says string) string {
			return fmt.Sprintf("resource %q \"this\" {\n  name = \"prod\"\n%s\n}\n", typeName, says)
		}
		address := typeName + ".this"
		only := func(says, former string) resource.TestCheckFunc {
			return resource.ComposeTestCheckFunc(recorded(t, l, says, here, away), func(*terraform.State) error {
				for _, h := range []*lab.Host{here, away} {
					have := record(t, l, h.Name)
					if strings.Contains(have, former) || strings.Contains(have, "removed_policies") {
						return fmt.Errorf("host %s still has %s", h.Name, have)
					}
				}
				return nil
			})
		}
		resource.Test(t, resource.TestCase{
			ProtoV6ProviderFactories: acctest.Factories(t),
			CheckDestroy: func(*terraform.State) error {
				for _, h := range []*lab.Host{here, away} {
					if left := record(t, l, h.Name); left != "" {
						return fmt.Errorf("left on host %s: %s", h.Name, left)
					}
				}
				return nil
			},
			Steps: []resource.TestStep{{
				Config: block("") + policy(k.least), Check: recorded(t, l, k.inLeast, here, away),
			}, {
				Config: block("fenced = true"), Check: recorded(t, l, k.inLeast, away),
			}, {
				Config: block("") + policy(k.other), ConfigPlanChecks: acctest.Action(address, plancheck.ResourceActionCreate),
				ConfigStateChecks: everywhere(address),
				Check:             only(k.inOther, k.inLeast),
			}, {
				PreConfig:        func() { l.Virsh(t, here.Name, "secret-undefine", secret(t, l, here.Name)) },
				Config:           block("fenced = true") + policy(k.other),
				ConfigPlanChecks: acctest.Action(address, plancheck.ResourceActionCreate),
				Check:            recorded(t, l, k.inOther, here, away),
			}, {
				Config: block("") + policy(k.least), ConfigPlanChecks: acctest.Action(address, plancheck.ResourceActionUpdate),
				ConfigStateChecks: everywhere(address),
				Check:             only(k.inLeast, k.inOther),
			}},
		})
	})
}

// TestAccPolicy_gone: a policy that was removed from all hosts is created again; as long as one of them may have it,
// nothing is created.
func TestAccPolicy_gone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, typeName string, k kind) {
		t.Helper()
		l := lab.Open(t)
		own := l.StartHost(t)
		address := typeName + ".this"
		policy := fmt.Sprintf("resource %q \"this\" {\n%s\n}\n", typeName, k.least)
		block := func(hosts ...acctest.Host) string { return acctest.Block{Lab: l, Hosts: hosts}.String() }
		alone := block(acctest.Host{Of: own}) + policy
		resource.Test(t, resource.TestCase{
			ProtoV6ProviderFactories: acctest.Factories(t),
			Steps: []resource.TestStep{{
				Config: alone, ConfigPlanChecks: acctest.Action(address, plancheck.ResourceActionCreate),
				Check: recorded(t, l, k.inLeast, own),
			}, {
				PreConfig: func() { l.Virsh(t, own.Name, "secret-undefine", secret(t, l, own.Name)) },
				Config: block(acctest.Host{Of: own},
					acctest.Host{Name: "silent", URI: "qemu+ssh://root@" + own.Address + ":9/system"}) + policy,
				ExpectError: regexp.MustCompile(`Unable to read ` + k.noun),
			}, {
				Config: alone, ConfigPlanChecks: acctest.Action(address, plancheck.ResourceActionCreate),
			}},
		})
	})
}

// TestAccPolicy_twoStates: a plan tells that another state has a policy of the name, whether it creates a policy or
// gives one the name, and whether the apply will take the other policy over or refuse.
func TestAccPolicy_twoStates(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own := l.StartHost(t)
	const typeName = "virtfleet_migration_policy"
	k := kinds[typeName]
	config := func(name, says string) string {
		return acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: own}}}.String() +
			fmt.Sprintf("resource %q \"this\" {\n  name = %q\n  %s\n}\n", typeName, name, says)
	}
	mine, other := acctest.NewCLI(t), acctest.NewCLI(t)
	mine.Config(t, config("prod", k.least))
	mine.Run(t, "apply")
	const takenOver, refused = "Policy exists already", "Another policy has this name"
	planned := func(name, says, want string) {
		t.Helper()
		other.Config(t, config(name, says))
		out := other.Run(t, "plan")
		for _, title := range []string{takenOver, refused} {
			if strings.Contains(out, title) != (title == want) {
				t.Errorf("the plan of %s with %s is to warn of %q:\n%s", name, says, want, out)
			}
		}
	}
	planned("prod", k.least, takenOver)
	planned("prod", k.other, refused)
	planned("test", k.other, "")
	other.Run(t, "apply")
	planned("test", k.least, "")
	planned("prod", k.least, takenOver)
	planned("prod", k.other, refused)
	if out := other.Fail(t, "apply"); !strings.Contains(out, "exists already") {
		t.Errorf("it isn't refused: %s", out)
	}
	other.Run(t, "destroy")
	if out, empty := mine.Empty(t); !empty {
		t.Errorf("what the other one did shows up here:\n%s", out)
	}
	mine.Run(t, "destroy")
	if left := record(t, l, own.Name); left != "" {
		t.Errorf("left on host %s: %s", own.Name, left)
	}
}
