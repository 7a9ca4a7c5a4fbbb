package virtualmachine_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// imageFile is a qcow2 image of 32 MiB with some content.
func imageFile(t *testing.T) string {
	t.Helper()
	raw, file := filepath.Join(t.TempDir(), "raw"), filepath.Join(t.TempDir(), "image.qcow2")
	if err := os.WriteFile(raw, bytes.Repeat([]byte(t.Name()), 10_000), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(raw, 32<<20); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "qemu-img", "convert", "-O", "qcow2", raw, file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

// unique is what makes the name of a volume one of its kind: the image's content, or the VM.
var unique = regexp.MustCompile(`-([0-9a-f]{12}|[0-9a-f]{8}(-[0-9]+)?)$`)

// volumes are the names of what is in a host's pool, without what is unique in them.
func volumes(t *testing.T, l *lab.Lab, host, pool string) []string {
	t.Helper()
	l.Virsh(t, host, "pool-refresh", pool)
	var names []string
	for _, line := range strings.Split(l.Virsh(t, host, "vol-list", pool), "\n") {
		if fields := strings.Fields(line); len(fields) == 2 && strings.HasPrefix(fields[1], "/") {
			names = append(names, unique.ReplaceAllString(fields[0], ""))
		}
	}
	slices.Sort(names)
	return names
}

// unnoticed returns an error if CheckDestroyed doesn't notice the VM of a state under a name that it doesn't know, or
// the disks that were made with it.
func unnoticed(l *lab.Lab, s *terraform.State) error {
	check := acctest.CheckDestroyed(l, "another")
	if err := check(s); err == nil || !strings.Contains(err.Error(), "is still on host") {
		return fmt.Errorf("the VM is there, and the check says: %w", err)
	}
	vm := s.RootModule().Resources[address].Primary
	defer func(id string) { vm.ID = id }(vm.ID)
	vm.ID = "another"
	if err := check(s); err == nil || !strings.Contains(err.Error(), "still has /var/lib/libvirt/") {
		return fmt.Errorf("its disks are there, and the check says: %w", err)
	}
	return nil
}

// TestAccVirtualMachine_ownDisks: disks are made with the VM, grow and change under it while it runs, and go with it.
// The VM boots from the first one that has an image, not from an empty one whose name comes before.
func TestAccVirtualMachine_ownDisks(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	storage := fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
}
resource "virtfleet_image" "base" {
  name   = "base"
  pool   = virtfleet_storage_pool.vms.name
  source = { file = %[2]q }
}
`, name, imageFile(t))
	root := func(size string) string {
		return fmt.Sprintf(`root = {
			pool = virtfleet_storage_pool.vms.name, image = virtfleet_image.base.id, size = %q
		}`, size)
	}
	logs := `logs = { pool = virtfleet_storage_pool.vms.name, size = "16Mi", on_destroy = "keep" }`
	extra := `extra = { pool = virtfleet_storage_pool.vms.name, size = "24Mi", format = "raw", preallocation = "full" }`
	whole := `whole = {
		pool = virtfleet_storage_pool.vms.name, image = virtfleet_image.base.id, clone = "full", format = "raw"
	}`
	configOn := func(host string, disks ...string) string {
		return acctest.Config(l) + storage + guest(l, name).with(hcl{
			"host": quote(host), "termination_grace_period": quote("1m0s"), "disks": "{\n" + strings.Join(disks, "\n") + "\n}",
		}).String()
	}
	config := func(disks ...string) string { return configOn("kvm1", disks...) }
	ignoring := func(label, ignored string, changes hcl) string {
		return acctest.Config(l) + storage + guest(l, name).with(hcl{
			"host": quote("kvm1"), "termination_grace_period": quote("1m0s"), "labels": "{ app = " + quote(label) + " }",
			"lifecycle": "{\n    ignore_changes = [" + ignored + "]\n  }",
		}).with(changes).String()
	}
	hasOn := func(host string, want ...string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			if got := volumes(t, l, host, name); !slices.Equal(got, want) {
				return fmt.Errorf("host %s has the volumes %q; want %q", host, got, want)
			}
			return nil
		}
	}
	has := func(want ...string) resource.TestCheckFunc { return hasOn("kvm1", want...) }
	disk := func(key string) string { return name + "-" + key }
	capacity := func(target string, mib int) resource.TestCheckFunc {
		return func(*terraform.State) error {
			out := l.Virsh(t, "kvm1", "domblkinfo", name, target)
			return contains(out, fmt.Sprintf("%d\n", mib<<20))
		}
	}
	thick := func(host string) resource.TestCheckFunc {
		return func(s *terraform.State) error {
			file := s.RootModule().Resources[address].Primary.Attributes["disks.extra.path"]
			if blocks := strings.TrimSpace(l.Run(t, host, "stat", "-c", "%b", file)); blocks != "49152" {
				return fmt.Errorf("%s has %s blocks of 512 bytes; want 24 MiB", file, blocks)
			}
			return nil
		}
	}
	// A full copy has the image's content, and doesn't depend on the image.
	copied := func(s *terraform.State) error {
		of := s.RootModule().Resources
		file := of[address].Primary.Attributes["disks.whole.path"]
		info := l.Run(t, "kvm1", "qemu-img", "info", "-U", file)
		if strings.Contains(info, "backing file") {
			return fmt.Errorf("the copy is based on another file: %s", info)
		}
		base := "/var/lib/libvirt/" + of["virtfleet_image.base"].Primary.ID
		return errors.Join(contains(info, "file format: raw", "virtual size: 32 MiB"),
			contains(l.Run(t, "kvm1", "qemu-img", "compare", "-U", "-f", "qcow2", "-F", "raw", base, file), "identical"))
	}
	write := func(*terraform.State) error {
		out := l.Virsh(t, "kvm1", "qemu-monitor-command", "--hmp", name,
			`qemu-io -d /machine/peripheral/ua-disk-root/virtio-backend "write -q -P 7 40M 1M"`)
		if strings.TrimSpace(out) != "" {
			return fmt.Errorf("not written: %s", out)
		}
		return nil
	}
	reads := func(s *terraform.State) error {
		file := s.RootModule().Resources[address].Primary.Attributes["disks.root.path"]
		out := l.Run(t, "kvm2", "qemu-io", "-U", "-r", "-f", "qcow2", "-c", "read -P 7 40M 1M", file)
		if strings.Contains(out, "failed") {
			return errors.New(out)
		}
		return contains(l.Run(t, "kvm2", "qemu-img", "info", "-U", file), "backing file: /var/lib/libvirt/"+name+"/base-")
	}
	var running string
	same := func(*terraform.State) error {
		if now := l.Virsh(t, "kvm1", "domid", name); now != running {
			return fmt.Errorf("its QEMU was %s, is %s", running, now)
		}
		return nil
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: config(root("16Mi")), ExpectError: regexp.MustCompile(`(?s)32Mi.*16Mi`),
	}, resource.TestStep{
		Config:           config(root("48Mi"), logs, whole),
		ConfigPlanChecks: changes(plancheck.ResourceActionCreate),
		ConfigStateChecks: []statecheck.StateCheck{
			know("status", exactly("Running")), know("disks.root.pool", exactly(name)), know("disks.root.size", exactly("48Mi")),
			know("disks.root.file", knownvalue.Null()), know("disks.root.format", exactly("qcow2")),
			know("disks.logs.on_destroy", exactly("keep")), know("disks.whole.format", exactly("raw")),
		},
		Check: resource.ComposeTestCheckFunc(has("base", disk("logs"), disk("root"), disk("whole")), copied,
			capacity("vda", 48), capacity("vdc", 16), look(t, l, "kvm1", name, "ua-disk-root"), func(*terraform.State) error {
				// Only what runs names what its disks are based on.
				return contains(l.Virsh(t, "kvm1", "dumpxml", name), "/var/lib/libvirt/"+name+"/base-")
			}, func(s *terraform.State) error { return unnoticed(l, s) }),
	}, resource.TestStep{
		ResourceName: address, ImportState: true, ImportStateVerify: true, ImportStateId: name,
		ImportStateVerifyIgnore: readWhereDeclared("run_strategy", "timeouts", "status_reason", "host"),
	}, resource.TestStep{
		Config: config(root("40Mi"), logs), ExpectError: regexp.MustCompile(`never shrink`),
	}, resource.TestStep{
		Config:      config(strings.Replace(root("48Mi"), "virtfleet_image.base.id", `"vms/other-012"`, 1), logs),
		ExpectError: regexp.MustCompile(`created\s+again`),
	}, resource.TestStep{
		// What a user has grown doesn't shrink either.
		PreConfig: func() { l.Virsh(t, "kvm1", "blockresize", name, "vda", "56M") },
		Config:    config(root("52Mi"), logs), PlanOnly: true,
		ExpectError: regexp.MustCompile(`(?s)Disks never shrink.*has\s+56Mi.*size\s+is\s+52Mi`),
	}, resource.TestStep{
		// Grown, added and removed under the running guest; what is to be kept is.
		Config:           config(root("64Mi"), extra),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: resource.ComposeTestCheckFunc(has("base", disk("extra"), disk("logs"), disk("root")), capacity("vda", 64),
			look(t, l, "kvm1", name, "ua-disk-extra"), thick("kvm1")),
	}, resource.TestStep{
		Config:      config(root("64Mi"), strings.Replace(extra, "full", "off", 1)),
		ExpectError: regexp.MustCompile(`created\s+again`),
	}, resource.TestStep{
		// Called something else, it is the same disk still.
		Config:           config(root("64Mi"), strings.Replace(extra, "extra", "more", 1)),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		ConfigStateChecks: []statecheck.StateCheck{know("disks.more.path",
			knownvalue.StringRegexp(regexp.MustCompile("/"+disk("extra")+"-")))},
		Check: resource.ComposeTestCheckFunc(has("base", disk("extra"), disk("logs"), disk("root")),
			func(*terraform.State) error {
				return contains(l.Virsh(t, "kvm1", "domblklist", name), "/"+disk("extra"))
			}),
	}, resource.TestStep{
		// One of the same key is another one.
		Config:           config(root("64Mi"), logs),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check:            resource.ComposeTestCheckFunc(has("base", disk("logs"), disk("logs"), disk("root")), write),
	}, resource.TestStep{
		// What Terraform is told to ignore stays as it is, also when something else changes.
		PreConfig: func() { running = l.Virsh(t, "kvm1", "domid", name) },
		Config: ignoring("db", "disks, host, memory, run_strategy", hcl{
			"disks": "{}", "host": quote("kvm2"), "memory": `{ size = "96Mi" }`, "run_strategy": quote("Halted"),
			"update_policy": quote("Restart"),
		}),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: resource.ComposeTestCheckFunc(has("base", disk("logs"), disk("logs"), disk("root")), same,
			func(*terraform.State) error {
				return contains(l.Virsh(t, "kvm1", "domblklist", name), "/"+disk("logs"), "/"+disk("root"))
			}),
	}, resource.TestStep{
		Config: ignoring("web", `disks["root"].image`, hcl{
			"disks": "{\n" + logs + "\n" + strings.Replace(root("64Mi"), "virtfleet_image.base.id", `"vms/other"`, 1) + "\n}",
		}),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check:            resource.ComposeTestCheckFunc(has("base", disk("logs"), disk("logs"), disk("root")), same),
	}, resource.TestStep{
		// Its disks move with it, those that are kept in the end too; what was kept before belongs to no VM.
		Config:           configOn("kvm2", root("64Mi"), extra),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		ConfigStateChecks: []statecheck.StateCheck{
			know("current_host", exactly("kvm2")), know("location.left_volumes", knownvalue.ListExact(nil)),
		},
		Check: resource.ComposeTestCheckFunc(hasOn("kvm2", "base", disk("extra"), disk("logs"), disk("root")),
			has("base", disk("logs")), reads, thick("kvm2")),
	}, resource.TestStep{
		Config: acctest.Config(l) + storage,
		Check: func(*terraform.State) error {
			defer l.Run(t, "kvm1", "sh", "-c", "rm /var/lib/libvirt/"+name+"/*-logs-*")
			defer l.Run(t, "kvm2", "sh", "-c", "rm /var/lib/libvirt/"+name+"/*-logs-*")
			return errors.Join(has("base", disk("logs"))(nil), hasOn("kvm2", "base", disk("logs"))(nil))
		},
	})
}
