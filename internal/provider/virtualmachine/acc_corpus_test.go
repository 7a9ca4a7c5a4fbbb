package virtualmachine_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// corpusDefinitions is the definitions of internal/domain that this libvirt can define, by their VMs' names.
func corpusDefinitions(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../domain/testdata/corpus/*.xml")
	if err != nil || len(files) < 150 {
		t.Fatalf("there are %d definitions: %v", len(files), err)
	}
	found := map[string]string{}
	for _, file := range files {
		xml, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimSuffix(filepath.Base(file), ".xml")] = string(xml)
	}
	return found
}

// definitionsByName are what a host has of VMs, by name, read in one session.
func definitionsByName(t *testing.T, l *lab.Lab, host string, names []string) map[string]string {
	t.Helper()
	const command, end = "dumpxml --security-info ", "</domain>"
	all := strings.SplitAfter(l.Virsh(t, host, command+strings.Join(names, "; "+command)), end)
	if len(all) != len(names)+1 {
		t.Fatalf("%s has %d definitions of %d VMs", host, len(all)-1, len(names))
	}
	found := map[string]string{}
	for i, name := range names {
		found[name] = all[i]
	}
	return found
}

// domainTypeKVM is the type of a definition of a VM with KVM, and what comes before it.
var domainTypeKVM = regexp.MustCompile(`(<domain [^>]*\btype=['"])kvm`)

// linesWithoutOurs are the lines of a definition's meaning without what the provider marks and what people say about
// the VM.
func linesWithoutOurs(t *testing.T, xml string) []string {
	t.Helper()
	d, err := domain.Parse(xml)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(d.Canonical(), "\n"), func(line string) bool {
		line = strings.TrimSpace(line)
		return strings.HasPrefix(line, "{urn:virtfleet:1}") || strings.HasPrefix(line, "{}description ") ||
			line == `{}metadata ""`
	})
}

// TestAccVirtualMachine_importCorpus: hundreds of VMs as people and their tools define them are imported with the
// configuration that Terraform writes for them, which plans no change. With another description, an apply changes the
// description alone.
func TestAccVirtualMachine_importCorpus(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := l.StartHost(t)
	tf := acctest.NewCLI(t)
	imports, descriptions := "", ""
	var names, xmls []string
	kvm := hasKVM(t, l, h.Name)
	for name, xml := range corpusDefinitions(t) {
		if !kvm { // libvirt doesn't define what can't be started.
			if strings.Contains(xml, "<cachetune") {
				continue // QEMU's own CPUs have no caches to share out.
			}
			xml = domainTypeKVM.ReplaceAllString(xml, "${1}qemu")
		}
		names, xmls = append(names, name), append(xmls, xml)
		imports += fmt.Sprintf("import {\n  to = %s.%s\n  id = %q\n}\n", virtualmachine.TypeName, name, name)
		descriptions += fmt.Sprintf("resource %q %q {\n  description = \"Changed.\"\n}\n", virtualmachine.TypeName, name)
	}
	l.Define(t, h.Name, xmls...)
	// libvirt sorts the controllers of a definition that it reads again, as after any virsh edit.
	l.Define(t, h.Name, slices.Collect(maps.Values(definitionsByName(t, l, h.Name, names)))...)
	before := definitionsByName(t, l, h.Name, names)

	tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: h}}}.String()+imports)
	for at, change := range tf.Plan(t, "-generate-config-out="+filepath.Join(tf.Dir, "generated.tf")) {
		if change.Actions != "no-op" {
			t.Errorf("%s: %s:\n%s", at, change.Actions, cmp.Diff(change.Before, change.After))
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	if err := os.WriteFile(filepath.Join(tf.Dir, "descriptions_override.tf"), []byte(descriptions), 0o600); err != nil {
		t.Fatal(err)
	}
	tf.Run(t, "apply")
	for name, after := range definitionsByName(t, l, h.Name, names) {
		if diff := cmp.Diff(linesWithoutOurs(t, before[name]), linesWithoutOurs(t, after)); diff != "" {
			t.Errorf("%s has more changes than its description:\n%s", name, diff)
		}
	}
	noChanges(t, tf)
}
