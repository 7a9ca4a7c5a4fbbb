package provider_test

import (
	"os"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

func TestMain(m *testing.M) {
	if os.Getenv(orphanEnv) != "" {
		orphan()
		return
	}
	acctest.Main(m)
}
