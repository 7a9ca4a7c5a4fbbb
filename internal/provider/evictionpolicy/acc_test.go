package evictionpolicy_test

import (
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

func TestMain(m *testing.M) { acctest.Main(m) }

func TestEvictionPolicy_refused(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	step := func(policy, want string) resource.TestStep {
		return resource.TestStep{
			Config: acctest.Local("") + `resource "virtfleet_eviction_policy" "this" {
` + policy + "\n}",
			ExpectError: regexp.MustCompile(want), PlanOnly: true,
		}
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			step("strategy = \"None\"\nfallback = \"Save\"", "nothing is moved"),
			step("strategy = \"Never\"", "LiveMigrateIfPossible"),
			step("strategy = \"LiveMigrate\"\ntimeout = \"0s\"", "leaves no time"),
			step("strategy = \"LiveMigrate\"\non_cancel = \"wait\"", "finish"),
			step("strategy = \"LiveMigrate\"\nselector = { names = [] }", "at least 1"),
		},
	})
}
