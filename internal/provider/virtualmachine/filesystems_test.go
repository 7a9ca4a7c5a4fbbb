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

// TestFilesystems_testDriver: the options of virtiofs go when another driver shares the directory. libvirt's built-in
// driver validates the definition.
func TestFilesystems_testDriver(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	h := keepBuiltIn(t)
	const name = "unit-filesystems"
	step := func(driver string, action plancheck.ResourceActionType, has string) resource.TestStep {
		return resource.TestStep{
			Config: builtIn + hcl{
				"name": quote(name), "arch": quote("i686"), "run_strategy": quote("Halted"),
				"memory":  `{ size = "64Mi", shared = true }`,
				"devices": `{ filesystems = { share = { target = "share", source = "/srv", driver = ` + driver + " } } }",
			}.String(),
			ConfigPlanChecks: changes(action),
			Check: func(*terraform.State) error {
				d, err := h.DomainByName(t.Context(), name)
				if err != nil {
					return err
				}
				if !strings.Contains(d.PersistentXML, has) ||
					strings.Contains(d.PersistentXML, "<binary") != strings.Contains(has, "virtiofs") {
					return fmt.Errorf("no %s in %s", has, d.PersistentXML)
				}
				return nil
			},
		}
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			step(`"virtiofs", cache = "always", queue_size = 1024, xattr = true`, plancheck.ResourceActionCreate,
				"<driver type='virtiofs' queue='1024'/>"),
			step(`"virtiofs"`, plancheck.ResourceActionNoop, "<driver type='virtiofs' queue='1024'/>"),
			step(`"9p"`, plancheck.ResourceActionUpdate, "<driver type='path'/>"),
		},
	})
}
