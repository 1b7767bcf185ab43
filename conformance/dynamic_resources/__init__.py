"""Dynamic resource allocation (DRA): ResourceSlices, DeviceClasses, ResourceClaims and the drivers behind them."""
