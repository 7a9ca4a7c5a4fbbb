package migration

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab/leaks"
)

func TestMain(m *testing.M) {
	leaks.Main(m, leaks.EventLoop)
}
