package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestLaunchSecurity_testDriver: libvirt's built-in driver, which needs no processor for it, defines VMs with protected
// memory. They are created, changed and imported. It also validates the definition against libvirt's schema.
func TestLaunchSecurity_testDriver(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	h := keepBuiltIn(t)
	const name = "unit-confidential"
	has := func(want ...string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			d, err := h.DomainByName(t.Context(), name)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			for _, text := range want {
				if !strings.Contains(d.PersistentXML, text) {
					return fmt.Errorf("no %s in %s", text, d.PersistentXML)
				}
			}
			return nil
		}
	}
	step := func(security string, action plancheck.ResourceActionType, want ...string) resource.TestStep {
		return resource.TestStep{
			Config: builtIn + hcl{
				"name": quote(name), "arch": quote("i686"), "memory": `{ size = "64Mi" }`, "run_strategy": quote("Halted"),
				"platform": "{ launch_security = " + security + " }",
			}.String(),
			ConfigPlanChecks: changes(action), Check: has(want...),
		}
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			step(`{ type = "s390-pv" }`, plancheck.ResourceActionCreate, "<launchSecurity type='s390-pv'/>"),
			step(`{
        type = "sev", policy = "3", cbitpos = 47, reduced_phys_bits = 1, kernel_hashes = true
        dh_cert = "YQ==", session = "Yg=="
      }`, plancheck.ResourceActionUpdate, "<launchSecurity type='sev' kernelHashes='yes'>", "<cbitpos>47<",
				"<reducedPhysBits>1<", "<policy>0x0003<", "<dhCert>YQ==<", "<session>Yg==<"),
			{
				ResourceName: address, ImportState: true, ImportStateVerify: true, ImportStateId: name,
				ImportStateVerifyIgnore: readWhereDeclared("run_strategy", "timeouts", "status_reason"),
			},
			step(`{ type = "sev", policy = "0x5" }`, plancheck.ResourceActionUpdate, "<policy>0x0005<", "<dhCert>YQ==<"),
			step(`{ type = "s390-pv" }`, plancheck.ResourceActionUpdate, "<launchSecurity type='s390-pv'/>"),
			step(`{ type = "none" }`, plancheck.ResourceActionUpdate),
		},
	})
}
