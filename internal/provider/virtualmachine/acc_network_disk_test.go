package virtualmachine_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_nbdTLS: a guest reads and writes a disk over NBD with TLS, with the certificates of its host,
// and does so on another host after a move.
func TestAccVirtualMachine_nbdTLS(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	from, to := l.StartHost(t), l.StartHost(t)
	a := lab.NewAuthority(t)
	a.Equip(t, l, from, from.Address)
	a.Equip(t, l, to, to.Address)
	export := l.TLSExport(t, a, name, 16<<20)
	config := func(host *lab.Host, tls string) string {
		return providerBlock(l, "", from, to) + guest(l, name).with(hcl{
			"host": quote(host.Name), "guest_agent": "{ enabled = true }", "update_policy": quote("Restart"),
			"termination_grace_period": quote("1m0s"),
			"disks": fmt.Sprintf(`{ data = {
				network = { protocol = "nbd", name = %q, hosts = [%q]%s }
				cache   = "none"
			} }`, export.Name, export.Address(), tls),
		}).String()
	}
	const on, read, text = ", tls = true", "head -c 13 /dev/vda", "over the wire"
	sees := func(host *lab.Host, script string) resource.TestCheckFunc {
		return resource.ComposeTestCheckFunc(look(t, l, host.Name, name, "tls='yes'"), func(*terraform.State) error {
			return contains(outputInGuest(t, l, host.Name, name, script), text)
		})
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: config(from, ""), ExpectError: inOrder("TLS"),
	}, resource.TestStep{
		Config: config(from, on),
		Check: sees(from, "until [ -b /dev/vda ]; do sleep 0.1; done; "+
			"printf '"+text+"' | dd of=/dev/vda conv=notrunc,fsync 2>/dev/null; "+read),
	}, resource.TestStep{
		ResourceName: address, ImportState: true, ImportStateVerify: true, ImportStateId: name,
		ImportStateVerifyIgnore: readWhereDeclared("run_strategy", "timeouts", "status_reason", "host", "update_policy"),
	}, resource.TestStep{
		PreConfig: func() {
			xml := l.Virsh(t, from.Name, "dumpxml", "--inactive", name)
			l.Virsh(t, from.Name, "define", writeDeviceXML(t, strings.Replace(xml, " tls='yes'", "", 1)))
		},
		Config: config(from, on), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate), Check: sees(from, read),
	}, resource.TestStep{
		Config: config(to, on), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		ConfigStateChecks: []statecheck.StateCheck{know("current_host", exactly(to.Name))}, Check: sees(to, read),
	})
}

// TestAccVirtualMachine_webMedium: a drive has a medium from a web server, which lets in its user only, and then
// another one over HTTPS, while the VM runs.
func TestAccVirtualMachine_webMedium(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	login := lab.Login{Username: "reader", Password: "correct horse"}
	medium := func(text string) []byte { return append([]byte(text), bytes.Repeat([]byte{0}, 64<<10-len(text))...) }
	web := l.Serve(t, "a.iso", medium("first medium"), login, false)
	secure := l.Serve(t, "b.iso", medium("other medium"), lab.Login{}, true)
	config := func(network string) string {
		return acctest.OneHost(l) + fmt.Sprintf(`
resource "virtfleet_secret" "web" {
  usage            = "iscsi"
  usage_id         = %q
  value_wo         = %q
  value_wo_version = "1"
}
`, name, login.Password) + guest(l, name).with(hcl{
			"host": quote("kvm1"), "guest_agent": "{ enabled = true }", "termination_grace_period": quote("1m0s"),
			"disks": "{ iso = { device = \"cdrom\", bus = \"scsi\", network = {" + network + "} } }",
		}).String()
	}
	first := fmt.Sprintf(`protocol = "http", name = "a.iso", hosts = [%q], timeout = 7
		auth = { username = %q, secret = virtfleet_secret.web.id }`, web, login.Username)
	other := fmt.Sprintf(`protocol = "https", name = "b.iso", hosts = [%q], query = "v=2", ssl_verify = %%t`, secure)
	sees := func(text string, parts ...string) resource.TestCheckFunc {
		return resource.ComposeTestCheckFunc(look(t, l, "kvm1", name, parts...), func(*terraform.State) error {
			return contains(outputInGuest(t, l, "kvm1", name, "until (: </dev/sr0) 2>/dev/null; do sleep 0.1; done; "+
				"echo 1 >/proc/sys/vm/drop_caches; head -c 12 /dev/sr0"), text)
		})
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: config(strings.Replace(first, "timeout", "tls = true, timeout", 1)), ExpectError: inOrder("Only nbd has it"),
	}, resource.TestStep{
		Config: config(first), ConfigPlanChecks: changes(plancheck.ResourceActionCreate),
		Check: sees("first medium", "<auth username='reader'>", "<timeout seconds='7'/>"),
	}, resource.TestStep{
		ResourceName: address, ImportState: true, ImportStateVerify: true, ImportStateId: name,
		ImportStateVerifyIgnore: readWhereDeclared("run_strategy", "timeouts", "status_reason", "host"),
	}, resource.TestStep{
		Config: config(fmt.Sprintf(other, true)), ExpectError: inOrder("certificate"),
	}, resource.TestStep{
		Config: config(fmt.Sprintf(other, false)), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: sees("other medium", "<ssl verify='no'/>", "query='v=2'"),
	})
}
