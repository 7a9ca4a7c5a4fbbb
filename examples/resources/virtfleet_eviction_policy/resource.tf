# VMs of production are moved while they run, before all others. One that can't be moved blocks the drain, and the plan says
# why. Ctrl-C doesn't abort a move that is in progress.
resource "virtfleet_eviction_policy" "prod" {
  name      = "prod"
  selector  = { labels = { tier = "prod" } }
  strategy  = "LiveMigrate"
  fallback  = "Block"
  priority  = 100
  on_cancel = "finish"

  migration_options = { bandwidth = "1Gi", allow_auto_converge = true }
}

# VMs of staging are moved while they run. The memory of one that can't be moved is saved. It is
# resumed when the maintenance ends, if the maintenance has restore = true.
resource "virtfleet_eviction_policy" "staging" {
  name     = "staging"
  selector = { labels = { tier = "staging" } }
  strategy = "LiveMigrateIfPossible"
  fallback = "Save"
}

# VMs with batch jobs, which can be repeated, are shut down.
resource "virtfleet_eviction_policy" "batch" {
  name     = "batch"
  selector = { labels = { tier = "batch" } }
  strategy = "None"
}

# A cluster manager moves databases of production when it sees their condition EvictionRequested. The drain waits for it. The
# policy matches two labels, so it takes precedence over "prod", which matches one.
resource "virtfleet_eviction_policy" "database" {
  name     = "database"
  selector = { labels = { tier = "prod", app = "db" } }
  strategy = "External"
  timeout  = "30m"
}
