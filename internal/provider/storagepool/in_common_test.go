package storagepool_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestStoragePool_oneDirectory: a plan refuses a pool in the directory of another pool, of the host or of the plan,
// also if a pool gets that directory by a change. A pool that is replaced under another name keeps its directory.
func TestStoragePool_oneDirectory(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	// The test driver forgets everything when there is no connection to it any more.
	h, err := libvirt.Open(libvirt.Config{Name: "local", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	if _, err := h.StoragePools(t.Context()); err != nil {
		t.Fatal(err)
	}
	pool := func(key, name, path string) string {
		return fmt.Sprintf("resource \"virtfleet_storage_pool\" %q {\n  name = \"in-common-%s\"\n  type = \"dir\"\n"+
			"  target = { path = %q }\n}\n", key, name, path)
	}
	refused := func(config, other, path string) resource.TestStep {
		return resource.TestStep{
			Config: acctest.Local("") + config, PlanOnly: true,
			ExpectError: regexp.MustCompile(`(?s)On\s+host\s+"local"\s+storage\s+pool\s+"` + other +
				`"\s+has\s+target.path\s+=\s+"` + path + `".*destroy\s+-refresh=false`),
		}
	}
	const at = "/in-common-pools"
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			refused(pool("one", "one", "/default-pool/"), "default-pool", "/default-pool"),
			refused(pool("one", "one", at)+pool("two", "two", at), "in-common-(one|two)", at),
			{Config: acctest.Local("") + pool("one", "one", at) + pool("two", "two", at+"-2")},
			refused(pool("one", "one", at)+pool("two", "two", at), "in-common-one", at),
			{Config: acctest.Local("") + pool("one", "other", at) + pool("two", "two", at+"-2")},
		},
	})
}
