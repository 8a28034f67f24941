! A shallow-water model in Fortran, with MPI, uneven pieces and ghost cells of its own. Every 10 steps it calls a network of
! Halogen on its fields as they lie in memory: the network's halos are Halogen's business, within the model's decomposition.
!
!   mpirun -n 4 fortran_host [FILE]      writes the state at the end: (lon, lat, 3) doubles
program fortran_host
  use mpi
  use, intrinsic :: iso_fortran_env, only: real64
  use correction_model
  implicit none
  integer, parameter :: width = 48, height = 32, steps = 40
  real(real64), parameter :: gravity = 9.81_real64, depth = 100, dx = 1000, dt = 4, twice = 1 / (2 * dx)
  integer :: rank, ranks, ierr, is, ie, js, je, west, east, south, north, i, j, step
  real(real64), allocatable :: state(:, :, :), change(:, :, :)  ! height, velocity along longitude and latitude
  real(real64) :: sums(2)
  type(correction) :: network

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call decompose()
  allocate (state(is - 1:ie + 1, js - 1:je + 1, 3), change(is:ie, js:je, 3))
  state = 0
  do j = js, je
    do i = is, ie
      if ((i - 20)**2 + (j - 12)**2 < 36) state(i, j, 1) = 1 + real(mod(i * 5 + j * 3, 7), real64) / 16
    end do
  end do
  call network%create(extents=[width, height], lower=[is, js], upper=[ie, je], comm=MPI_COMM_WORLD, seed=1)

  do step = 1, steps
    call fill_ghosts(1)
    do concurrent(j=js:je, i=is:ie)
      state(i, j, 2) = state(i, j, 2) - dt * gravity * ((state(i + 1, j, 1) - state(i - 1, j, 1)) * twice)
      state(i, j, 3) = state(i, j, 3) - dt * gravity * ((state(i, j + 1, 1) - state(i, j - 1, 1)) * twice)
    end do
    call fill_ghosts(2)
    call fill_ghosts(3)
    do concurrent(j=js:je, i=is:ie)
      state(i, j, 1) = state(i, j, 1) - dt * depth * ((state(i + 1, j, 2) - state(i - 1, j, 2)) * twice &
                                                      + (state(i, j + 1, 3) - state(i, j - 1, 3)) * twice)
    end do
    if (mod(step, 10) == 0) then
      call network%infer(state(is:ie, js:je, :), change)
      state(is:ie, js:je, :) = state(is:ie, js:je, :) + change
      sums = [sum(state(is:ie, js:je, 1)), sum(change**2)]
      call MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
      if (rank == 0) print '(a, i4, a, f10.5, a, es10.3)', 'step', step, ': mean height', sums(1) / (width * height), &
        ' m, correction', sqrt(sums(2) / (3 * width * height))
    end if
  end do
  call write_state()
  call network%destroy()
  call MPI_Finalize(ierr)

contains

  !> Four ranks own 2 x 2 uneven pieces, longitude first; any other number owns bands of latitude.
  subroutine decompose()
    integer :: across, down, x, y
    across = merge(2, 1, ranks == 4)
    down = ranks / across
    x = mod(rank, across)
    y = rank / across
    is = 1 + x * 20
    ie = merge(width, 20, x == across - 1)
    js = 1 + y * height / down + merge(4, 0, y > 0)
    je = merge(height, (y + 1) * height / down + 4, y == down - 1)
    west = y * across + mod(x + across - 1, across)
    east = y * across + mod(x + 1, across)
    south = merge(MPI_PROC_NULL, rank - across, y == 0)
    north = merge(MPI_PROC_NULL, rank + across, y == down - 1)
  end subroutine

  !> The ghost cells of one field: periodic along longitude, walls at the ends of latitude.
  subroutine fill_ghosts(k)
    integer, intent(in) :: k
    real(real64) :: wall
    wall = merge(-1.0_real64, 1.0_real64, k == 3)
    call swap(state(ie, js:je, k), state(is - 1, js:je, k), east, west)
    call swap(state(is, js:je, k), state(ie + 1, js:je, k), west, east)
    if (js == 1) state(is:ie, 0, k) = wall * state(is:ie, 1, k)
    if (je == height) state(is:ie, height + 1, k) = wall * state(is:ie, height, k)
    call swap(state(is:ie, je, k), state(is:ie, js - 1, k), north, south)
    call swap(state(is:ie, js, k), state(is:ie, je + 1, k), south, north)
  end subroutine

  subroutine swap(sent, received, to, from)
    real(real64), intent(in) :: sent(:)
    real(real64), intent(inout) :: received(:)
    integer, intent(in) :: to, from
    real(real64) :: out(size(sent)), in(size(sent))
    out = sent
    in = received
    call MPI_Sendrecv(out, size(out), MPI_DOUBLE_PRECISION, to, 0, in, size(in), MPI_DOUBLE_PRECISION, from, 0, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    received = in
  end subroutine

  subroutine write_state()
    integer :: file, part
    character(256) :: path
    if (command_argument_count() < 1) return
    call get_command_argument(1, path)
    call MPI_Type_create_subarray(3, [width, height, 3], [ie - is + 1, je - js + 1, 3], [is - 1, js - 1, 0], &
                                  MPI_ORDER_FORTRAN, MPI_DOUBLE_PRECISION, part, ierr)
    call MPI_Type_commit(part, ierr)
    call MPI_File_open(MPI_COMM_WORLD, trim(path), MPI_MODE_CREATE + MPI_MODE_WRONLY, MPI_INFO_NULL, file, ierr)
    if (ierr /= MPI_SUCCESS) error stop 'the file for the state cannot be written'
    call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_DOUBLE_PRECISION, part, 'native', MPI_INFO_NULL, ierr)
    change = state(is:ie, js:je, :)
    call MPI_File_write_all(file, change, size(change), MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE, ierr)
    call MPI_File_close(file, ierr)
  end subroutine
end program
