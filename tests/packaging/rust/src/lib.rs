// SPDX-License-Identifier: Apache-2.0
//! Verbs as Rust calls them: functions of C, in a test program that cargo links with libibverbs.so.1.
#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::os::raw::{c_char, c_int, c_void};
    use std::ptr::null_mut;

    #[repr(C)]
    pub struct Opaque([u8; 0]);

    #[link(name = "ibverbs")]
    extern "C" {
        fn ibv_get_device_list(count: *mut c_int) -> *mut *mut Opaque;
        fn ibv_free_device_list(list: *mut *mut Opaque);
        fn ibv_get_device_name(device: *mut Opaque) -> *const c_char;
        fn ibv_open_device(device: *mut Opaque) -> *mut Opaque;
        fn ibv_close_device(context: *mut Opaque) -> c_int;
        fn ibv_alloc_pd(context: *mut Opaque) -> *mut Opaque;
        fn ibv_dealloc_pd(pd: *mut Opaque) -> c_int;
        fn ibv_reg_mr(pd: *mut Opaque, at: *mut c_void, length: usize, access: c_int) -> *mut Opaque;
        fn ibv_dereg_mr(region: *mut Opaque) -> c_int;
        fn ibv_create_cq(context: *mut Opaque, entries: c_int, of: *mut c_void, channel: *mut Opaque, vector: c_int) -> *mut Opaque;
        fn ibv_destroy_cq(queue: *mut Opaque) -> c_int;
    }

    #[test]
    fn two_nics_are_found() {
        unsafe {
            let mut count = 0;
            let list = ibv_get_device_list(&mut count);
            assert!(!list.is_null());
            let names: Vec<_> = (0..count as usize)
                .map(|i| CStr::from_ptr(ibv_get_device_name(*list.add(i))).to_str().unwrap())
                .collect();
            assert_eq!(names, ["uroce0", "uroce1"]);
            ibv_free_device_list(list);
        }
    }

    // cargo runs both tests in one process, as threads.
    #[test]
    fn memory_is_registered() {
        let mut memory = vec![0u8; 4096];
        unsafe {
            let list = ibv_get_device_list(null_mut());
            let device = *list;
            assert!(!device.is_null(), "no NIC");
            let context = ibv_open_device(device);
            assert!(!context.is_null());
            ibv_free_device_list(list);
            let pd = ibv_alloc_pd(context);
            let region = ibv_reg_mr(pd, memory.as_mut_ptr() as *mut c_void, memory.len(), 1);
            assert!(!region.is_null());
            let queue = ibv_create_cq(context, 16, null_mut(), null_mut(), 0);
            assert!(!queue.is_null());
            assert_eq!(ibv_destroy_cq(queue), 0);
            assert_eq!(ibv_dereg_mr(region), 0);
            assert_eq!(ibv_dealloc_pd(pd), 0);
            assert_eq!(ibv_close_device(context), 0);
        }
    }
}
