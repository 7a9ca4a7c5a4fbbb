package virtualmachine_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// restarted applies a change for which the VM may be restarted.
func (s *tale) restarted(change hcl, action plancheck.ResourceActionType, has, hasNot []string) {
	s.t.Helper()
	s.config = s.config.with(change)
	s.steps = append(s.steps, resource.TestStep{
		Config: acctest.OneHost(s.l) + s.config.String(), ConfigPlanChecks: changes(action),
		Check: resource.ComposeAggregateTestCheckFunc(look(s.t, s.l, "kvm1", s.name, has...),
			lacks(s.t, s.l, "kvm1", s.name, hasNot...)),
	})
}

// edited has the definition edited by hand, which the next apply puts right.
func (s *tale) edited(has []string, replace ...string) {
	s.t.Helper()
	s.restarted(nil, plancheck.ResourceActionUpdate, has, nil)
	s.steps[len(s.steps)-1].PreConfig = func() {
		xml := s.l.Virsh(s.t, "kvm1", "dumpxml", "--inactive", s.name)
		edited := strings.NewReplacer(replace...).Replace(xml)
		if edited == xml {
			s.t.Errorf("there is nothing to replace in:\n%s", xml)
		}
		s.l.Define(s.t, "kvm1", edited)
	}
}

// TestAccPlatform_firmware: a firmware that is chosen by hand runs, with variables where they were asked for, is
// imported, changed, put right after a drift, and left to libvirt again.
func TestAccPlatform_firmware(t *testing.T) {
	t.Parallel()
	s := newTale(t)
	const code, vars = "/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"
	nvram := "/var/lib/libvirt/qemu/nvram/" + s.name + "-own.fd"
	firmware := func(more string) hcl {
		return hcl{"update_policy": quote("Restart"), "firmware": `{ type = "efi", secure_boot = false, loader = "` + code +
			`", nvram = "` + nvram + `", nvram_template = "` + vars + `"` + more + ` }`}
	}
	s.restarted(firmware(`, boot_menu = { enabled = true, timeout = 3000 }`), plancheck.ResourceActionCreate, []string{
		"type='pflash'>" + code + "</loader>", "<nvram template='" + vars + "'>" + nvram + "</nvram>",
		"<bootmenu enable='yes' timeout='3000'/>",
	}, []string{"firmware='efi'"})
	s.imported("update_policy", "firmware.stateless")
	s.refuse(firmware("").with(hcl{"update_policy": quote("Live")}).with(hcl{
		"firmware": `{ boot_menu = { enabled = false } }`,
	}), "Change needs a restart", "firmware.boot_menu.enabled: The firmware is loaded when the VM starts")
	s.refuse(hcl{"firmware": `{ type = "efi", nvram_template = "` + vars + `" }`}, "A template needs a loader")
	s.refuse(hcl{"firmware": `{ type = "efi", loader = "code.fd" }`}, "firmware.loader", "isn't an absolute path")
	s.refuse(hcl{"firmware": `{ loader = "/usr/share/OVMF/none.fd" }`}, "firmware.loader", "/usr/share/OVMF/none.fd")
	s.refuse(firmware(`, stateless = true`), "Stateless firmware keeps no variables")
	s.restarted(firmware(`, boot_menu = { timeout = 5000 }`), plancheck.ResourceActionUpdate,
		[]string{"<bootmenu enable='yes' timeout='5000'/>"}, nil)
	s.edited([]string{"timeout='5000'", code}, "timeout='5000'", "timeout='7'")
	s.restarted(hcl{"firmware": `{ type = "efi", secure_boot = false, loader = "", boot_menu = { timeout = 0 } }`},
		plancheck.ResourceActionUpdate, []string{"<bootmenu enable='yes'/>"}, []string{"timeout=", nvram})
	s.restarted(hcl{"firmware": `{ type = "efi", secure_boot = false, loader = "` + code + `", stateless = true }`},
		plancheck.ResourceActionUpdate, []string{"stateless='yes'", code}, []string{"<nvram"})
	s.restarted(hcl{"firmware": `{ type = "bios" }`}, plancheck.ResourceActionUpdate, nil, []string{"pflash", "<nvram"})
	s.runSteps()
}

// TestAccPlatform_smbios: what a guest is told about its hardware and by QEMU's firmware is created, imported, changed,
// put right after a drift and removed, and leaves the configuration for Ignition alone.
func TestAccPlatform_smbios(t *testing.T) {
	t.Parallel()
	s := newTale(t)
	platform := func(text string) hcl { return hcl{"update_policy": quote("Restart"), "platform": text} }
	s.restarted(platform(`{
    smbios = { mode = "sysinfo", bios = { vendor = "ACME" }, system = { manufacturer = "ACME", serial = "A & 1" },
               base_board = { serial = "B1" }, chassis = { asset = "C=1" } }
    fw_cfg       = { "opt/com.example/name" = "one = two" }
    fw_cfg_files = { "opt/com.example/os" = "/etc/os-release" }
  }`), plancheck.ResourceActionCreate, []string{
		"<smbios mode='sysinfo'/>", "<entry name='vendor'>ACME<", "<entry name='serial'>A &amp; 1<", "<baseBoard>",
		"<entry name='asset'>C=1<", "<entry name='opt/com.example/name'>one = two</entry>",
		"<entry name='opt/com.example/os' file='/etc/os-release'/>",
	}, nil)
	s.imported("update_policy")
	s.refuse(platform(`{ fw_cfg = { "opt/com.coreos/config" = "x" } }`), "platform.fw_cfg", "declare ignition")
	s.refuse(platform(`{ fw_cfg = { "name" = "x" } }`), "platform.fw_cfg", "doesn't begin with opt/")
	s.refuse(platform(`{ fw_cfg_files = { "opt/a" = "/none" } }`), "platform.fw_cfg_files", "/none")
	s.refuse(platform(`{ smbios = { mode = "guest" } }`), "platform.smbios.mode", "isn't one of sysinfo, host")
	s.refuse(platform(`{ smbios = { system = { uuid = "6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca10" } } }`), "UUID mismatch")
	s.restarted(platform(`{
    smbios = { mode = "sysinfo", system = { manufacturer = "ACME 2" }, chassis = {} }
    fw_cfg = { "opt/com.example/name" = "three" }
  }`), plancheck.ResourceActionUpdate, []string{"ACME 2", ">three<", "/etc/os-release"},
		[]string{"A &amp; 1", "<chassis>", "one = two"})
	s.edited([]string{"ACME 2", ">three<"}, "ACME 2", "Other", ">three<", ">four<")
	s.restarted(platform(`{
    smbios = { mode = "emulate", bios = {}, system = {}, base_board = {} }
    fw_cfg = {}, fw_cfg_files = {}
  }`), plancheck.ResourceActionUpdate, nil, []string{"<sysinfo", "<smbios"})
	texts := map[string]knownvalue.Check{"opt/com.example/name": exactly("one = two")}
	s.steps[0].ConfigStateChecks = append(s.steps[0].ConfigStateChecks,
		know("platform.fw_cfg", knownvalue.MapExact(texts)))
	s.runSteps()
}

// TestAccPlatform_launchSecurity: a host that can't protect a guest's memory is refused by the plan. This lab's
// libvirt can't even define such a VM: TestLaunchSecurity_testDriver defines it.
func TestAccPlatform_launchSecurity(t *testing.T) {
	t.Parallel()
	s := newTale(t)
	security := func(text string) hcl {
		return hcl{"run_strategy": quote("Halted"), "platform": "{ launch_security = " + text + " }"}
	}
	for kind, says := range map[string]string{
		`{ type = "sev", policy = "0x3" }`:                "platform.launch_security.type \"sev\"",
		`{ type = "s390-pv" }`:                            "platform.launch_security.type \"s390-pv\"",
		`{ type = "sev-snp", policy = "0x30000" }`:        "type = \"sev-snp\" needs libvirt 10.5.0, it has",
		`{ type = "tdx" }`:                                "type = \"tdx\" needs libvirt 11.6.0, it has",
		`{ type = "sev" }`:                                "The type sev needs one",
		`{ type = "tdx", cbitpos = 47 }`:                  "The type tdx has none, only sev and sev-snp.",
		`{ type = "sme" }`:                                "isn't one of sev, sev-snp, tdx, s390-pv",
		`{ type = "sev", policy = "all" }`:                `"all" isn't a number such as 0x3`,
		`{ type = "sev", policy = "0x3", session = "?" }`: `"?" isn't base64`,
	} {
		s.refuse(security(kind), says)
	}
	s.runSteps()
}
