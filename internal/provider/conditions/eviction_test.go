package conditions_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/conditions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachines"
)

// marked makes a VM by hand that has these elements in our metadata.
func marked(t *testing.T, l *lab.Lab, host, name, metadata string) (id string) {
	t.Helper()
	id = uuid.NewString()
	l.Define(t, host, fmt.Sprintf(`<domain type="qemu"><name>%[1]s</name><uuid>%[2]s</uuid>
  <metadata><virtfleet:vm xmlns:virtfleet="urn:virtfleet:1" version="1" uuid="%[2]s">%[3]s</virtfleet:vm></metadata>
  <memory unit="MiB">32</memory><vcpu current="1">4</vcpu><features><acpi/></features>
  <os><type arch="x86_64" machine="q35">hvm</type></os></domain>`, name, id, metadata))
	return id
}

// TestAccConditions_eviction: both data sources tell the rule that a drain would follow, and where it comes from: the
// VM itself, a policy or the fleet. A request that is on the VM tells the host to leave, by whom and when.
func TestAccConditions_eviction(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	app := lab.Name(t)
	labels := fmt.Sprintf(`<virtfleet:labels><virtfleet:label key="app" value="%s"/></virtfleet:labels>`, app)
	byPolicy := marked(t, l, "kvm2", app+"-policy", labels)
	ofItsOwn := marked(t, l, "kvm1", app+"-own",
		labels+`<virtfleet:eviction-strategy>None</virtfleet:eviction-strategy>`)
	byDefault := marked(t, l, "kvm1", app+"-default",
		`<virtfleet:eviction-requested host="kvm1" owner="alice@desk" since="2026-01-02T03:04:05Z"/>`)

	config := acctest.Block{Lab: l, Settings: `default_eviction_strategy = "External"`}.String() + fmt.Sprintf(`
resource "virtfleet_eviction_policy" "this" {
  name     = %[1]q
  selector = { labels = { app = %[1]q } }
  strategy = "LiveMigrate"
  fallback = "ColdMigrate"
}

data %[2]q "this" {
  depends_on = [virtfleet_eviction_policy.this]
}
`, app, virtualmachines.TypeName)
	var checks []statecheck.StateCheck
	expect := func(name, id string, evacuationHost knownvalue.Check, rule map[string]knownvalue.Check) {
		config += fmt.Sprintf("data %q %q {\n  virtual_machine_id = %q\n  depends_on = [virtfleet_eviction_policy.this]\n}\n",
			conditions.TypeName, name, id)
		machine := tfjsonpath.New("virtual_machines").AtMapKey(id)
		one, all := "data."+conditions.TypeName+"."+name, "data."+virtualmachines.TypeName+".this"
		checks = append(checks,
			statecheck.ExpectKnownValue(one, tfjsonpath.New("eviction"), knownvalue.ObjectExact(rule)),
			statecheck.ExpectKnownValue(one, tfjsonpath.New("evacuation_host"), evacuationHost),
			statecheck.ExpectKnownValue(all, machine.AtMapKey("eviction"), knownvalue.ObjectExact(rule)),
			statecheck.ExpectKnownValue(all, machine.AtMapKey("evacuation_host"), evacuationHost),
		)
	}
	expect("policy", byPolicy, knownvalue.Null(), map[string]knownvalue.Check{
		"strategy": knownvalue.StringExact("LiveMigrate"), "origin": knownvalue.StringExact("policy"),
		"eviction_policy_name": knownvalue.StringExact(app), "fallback": knownvalue.StringExact("ColdMigrate"),
	})
	expect("own", ofItsOwn, knownvalue.Null(), map[string]knownvalue.Check{
		"strategy": knownvalue.StringExact("None"), "origin": knownvalue.StringExact("virtual_machine"),
		"eviction_policy_name": knownvalue.StringExact(app), "fallback": knownvalue.Null(),
	})
	expect("default", byDefault, knownvalue.StringExact("kvm1"), map[string]knownvalue.Check{
		"strategy": knownvalue.StringExact("External"), "origin": knownvalue.StringExact("provider"),
		"eviction_policy_name": knownvalue.Null(), "fallback": knownvalue.Null(),
	})
	requested := tfjsonpath.New("conditions").AtMapKey("EvictionRequested")
	for attribute, want := range map[string]string{
		"status": "True", "last_transition_time": "2026-01-02T03:04:05Z",
		"message": `it was asked to leave host "kvm1" by alice@desk`,
	} {
		checks = append(checks, statecheck.ExpectKnownValue("data."+conditions.TypeName+".default",
			requested.AtMapKey(attribute), knownvalue.StringExact(want)))
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps:                    []resource.TestStep{{Config: config, ConfigStateChecks: checks}},
	})
	// Reading has written nothing.
	if now := l.Virsh(t, "kvm1", "dumpxml", app+"-default"); !strings.Contains(now, `since="2026-01-02T03:04:05Z"`) {
		t.Error(now)
	}
}

// TestAccConditions_leftover: a definition that a move of ours left behind is known since that move ended. One that was
// left by another tool has no time.
func TestAccConditions_leftover(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	for source, since := range map[string]string{"kvm1": "2026-01-02T03:04:05Z", "elsewhere": "null"} {
		name := lab.Name(t) + "-" + source
		id := marked(t, l, "kvm2", name, fmt.Sprintf(`<virtfleet:migrations>
    <virtfleet:migration source="%s" target="kvm2" start="2026-01-02T03:04:01.000Z" end="2026-01-02T03:04:05.678Z"
      phase="Succeeded"/></virtfleet:migrations>`, source))
		l.Define(t, "kvm1", l.Virsh(t, "kvm2", "dumpxml", name))
		l.Virsh(t, "kvm2", "start", "--paused", name)
		m := &testVM{t: t, lab: l, tf: acctest.NewCLI(t), host: "kvm2", id: id, name: name}
		m.config(acctest.Config(l), "")
		s := m.look()
		s.is("current_host", "kvm2", "conditions/StaleDefinition/last_transition_time", since)
		s.condition("StaleDefinition", "True", "StaleDefinition", "fleet", "kvm1")
	}
}
