! The least that a Fortran program does: bands of latitude with a ghost cell around them, one call.   mpirun -n 2 first_call
program first_call
  use mpi
  use, intrinsic :: iso_fortran_env, only: real64
  use correction_model
  implicit none
  integer, parameter :: width = 60, height = 40
  integer :: rank, ranks, js, je, ierr
  real(real64), allocatable :: state(:, :, :), change(:, :, :)
  type(correction) :: model

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  js = 1 + rank * height / ranks
  je = (rank + 1) * height / ranks
  allocate (state(0:width + 1, js - 1:je + 1, 3), change(width, js:je, 3))  ! (lon, lat, channel)
  call random_number(state)

  call model%create(extents=[width, height], lower=[1, js], upper=[width, je], comm=MPI_COMM_WORLD, seed=1)
  ! call model%load('weights.safetensors')
  call model%infer(state(1:width, js:je, :), change, ierr)
  if (ierr /= 0) then
    print '(a)', model%error()
    call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  end if
  print '(a, i0, a, f9.6)', 'rank ', rank, ': the largest correction is ', maxval(abs(change))
  call model%destroy()
  call MPI_Finalize(ierr)
end program
